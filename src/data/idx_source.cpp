// MNIST's idx format: 00 00, type, number of dimensions, each dimension as a big-endian 32-bit number, then the values.
#include <algorithm>
#include <cstring>

#include "data/args.h"
#include "data/byte_stream.h"
#include "data/class_range.h"
#include "data/content_hash.h"
#include "data/dtype.h"
#include "data/sources.h"
#include "util/looks_like.h"
#include "util/text.h"

namespace gputrain {
namespace {

constexpr unsigned char kUnsignedBytes = 0x08;
constexpr size_t kHead = 512;  // enough to tell what a wrong file is

struct IdxArray {
  std::vector<int64_t> dims;
  std::vector<uint8_t> values;
};

std::string type_name(unsigned char type) {
  switch (type) {
    case 0x09:
      return "int8";
    case 0x0B:
      return "int16";
    case 0x0C:
      return "int32";
    case 0x0D:
      return "float32";
    case 0x0E:
      return "float64";
    default:
      return "";
  }
}

[[noreturn]] void not_idx(const DataFile& file, bool compressed, std::string_view head) {
  const std::string inside =
      compressed ? "holds, once unpacked, what is not an idx file: it " : "is not an idx file: it ";
  std::string hint = "an idx file begins with the bytes 00 00 08 and its number of dimensions (gzip around it is fine)";
  if (compressed && is_gzip(head)) hint = "it was compressed twice: gunzip it once";
  if (!compressed && file.path().ends_with(".gz"))
    hint = "the name says gzip, the content does not: fetch the file again";
  throw file.error(inside + looks_like(head), hint);
}

// Reads the header, leaving the stream at the first value. `wanted`: dimensions that this file must have.
std::vector<int64_t> read_header(const DataFile& file, ByteStream& stream, size_t wanted) {
  std::string head(kHead, '\0');
  head.resize(stream.read(std::span(head).first(4)));
  const auto byte = [&head](size_t i) { return static_cast<unsigned char>(head[i]); };
  const std::string type = head.size() == 4 ? type_name(byte(2)) : "";
  const bool idx = head.size() == 4 && byte(0) == 0 && byte(1) == 0 && byte(3) >= 1 && byte(3) <= 8 &&
                   (byte(2) == kUnsignedBytes || !type.empty());
  if (!idx) {
    std::string more(kHead, '\0');
    more.resize(stream.read(more));
    not_idx(file, stream.compressed(), head + more);
  }
  if (byte(2) != kUnsignedBytes) {
    throw file.error("is an idx file of " + type + " values; images and labels are unsigned bytes",
                     "convert it, or use format: raw, which takes other types");
  }
  if (byte(3) != wanted) {
    throw file.error(
        "is an idx file with " + plural(byte(3), "dimension") + " where " + std::to_string(wanted) + " are needed",
        (wanted == 3 && byte(3) == 1) || (wanted == 1 && byte(3) == 3) ? "are images and labels swapped?" : "");
  }
  std::vector<unsigned char> sizes(wanted * 4);
  if (stream.read(std::span(reinterpret_cast<char*>(sizes.data()), sizes.size())) != sizes.size()) {
    throw file.error("is cut within its header");
  }
  std::vector<int64_t> dims;
  dims.reserve(wanted);
  for (size_t i = 0; i < wanted; ++i) {
    dims.push_back(int64_t{sizes[4 * i]} << 24 | sizes[4 * i + 1] << 16 | sizes[4 * i + 2] << 8 | sizes[4 * i + 3]);
  }
  return dims;
}

[[noreturn]] void wrong_length(const DataFile& file, const IdxArray& array, __int128 expected, int64_t found) {
  const std::string wanted = expected <= INT64_MAX ? std::to_string(static_cast<int64_t>(expected)) : "more than 2^63";
  throw file.error((found < expected ? "is cut: " : "is too long: ") + std::string("its header says ") +
                       shape_text(array.dims) + ", which is " + wanted + " bytes of values, but there are " +
                       std::to_string(found),
                   "fetch the file again, and compare its size or checksum with the original's");
}

// Reads to the end without keeping anything; the number of bytes.
int64_t count_rest(ByteStream& stream) {
  std::vector<char> block(64 << 10);
  int64_t total = 0;
  while (const size_t got = stream.read(block)) total += static_cast<int64_t>(got);
  return total;
}

IdxArray read_idx(const DataFile& file, size_t dimensions) {
  ByteStream stream(file);
  IdxArray array;
  array.dims = read_header(file, stream, dimensions);
  __int128 expected = 1;
  for (int64_t dim : array.dims) expected *= dim;
  if (expected == 0) throw file.error("is an idx file of size " + shape_text(array.dims) + ": it has no samples");
  const auto header = static_cast<int64_t>(4 + 4 * dimensions);
  if (expected > stream.size_limit()) wrong_length(file, array, expected, count_rest(stream));
  stream.expect(static_cast<int64_t>(expected) + header);
  array.values.resize(static_cast<size_t>(expected));
  const size_t got = stream.read(std::span(reinterpret_cast<char*>(array.values.data()), array.values.size()));
  const int64_t found = static_cast<int64_t>(got) + count_rest(stream);
  if (found != expected) wrong_length(file, array, expected, found);
  return array;
}

class IdxSource : public Source {
 public:
  IdxSource(IdxArray images, IdxArray labels) : images_(std::move(images)), labels_(std::move(labels)) {}

  int64_t size() const override { return images_.dims[0]; }
  std::vector<int64_t> sample_shape() const override { return {1, images_.dims[1], images_.dims[2]}; }
  at::ScalarType sample_type() const override { return at::kByte; }
  at::ScalarType target_type() const override { return at::kLong; }
  std::vector<int64_t> target_shape() const override { return {}; }

  void read(int64_t id, void* sample, void* target) const override {
    GP_CHECK(id >= 0 && id < size(), "sample " + std::to_string(id));
    const int64_t bytes = images_.dims[1] * images_.dims[2];
    std::memcpy(sample, images_.values.data() + id * bytes, static_cast<size_t>(bytes));
    const int64_t label = labels_.values[static_cast<size_t>(id)];
    std::memcpy(target, &label, sizeof label);
  }

  Json fingerprint() const override {
    return {{"format", "idx"},  {"samples", size()},       {"shape", sample_shape()},
            {"dtype", "uint8"}, {"inputs", part(images_)}, {"targets", part(labels_)}};
  }

 private:
  static Json part(const IdxArray& array) {
    const auto read = [&array](int64_t offset, std::span<char> out) {
      std::memcpy(out.data(), array.values.data() + offset, out.size());
    };
    const auto bytes = static_cast<int64_t>(array.values.size());
    return {{"bytes", bytes}, {"hash", sampled_hash(bytes, read)}};
  }

  IdxArray images_;
  IdxArray labels_;
};

}  // namespace

std::unique_ptr<Source> open_idx(const SourceRequest& request) {
  need_task(request, "idx", Task::kClassification);
  const ArgReader args(request.args, request.role, {"images", "labels"});
  const std::string images_path = args.text("images"), labels_path = args.text("labels");
  const DataFile image_file(images_path, request.role + ".images");
  const DataFile label_file(labels_path, request.role + ".labels");
  IdxArray labels = read_idx(label_file, 1);  // the small one first: mistakes show at once
  IdxArray images = read_idx(image_file, 3);
  if (images.dims[0] != labels.dims[0]) {
    throw label_file.error("has " + plural(labels.dims[0], "label") + " for the " + plural(images.dims[0], "image") +
                               " of " + image_file.path(),
                           "images and labels must come from the same set (train or test)");
  }
  const ClassRange range{.classes = request.options.classes, .ignore_index = std::nullopt};
  const auto bad =
      std::find_if(labels.values.begin(), labels.values.end(), [&](uint8_t label) { return !range.has(label); });
  if (bad != labels.values.end()) {
    throw label_file.error(range.problem("label", *bad, "sample " + std::to_string(bad - labels.values.begin())),
                           "set the model's num_classes to what the data has");
  }
  return std::make_unique<IdxSource>(std::move(images), std::move(labels));
}

}  // namespace gputrain

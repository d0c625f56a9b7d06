#include <algorithm>
#include <limits>

#include <ATen/ATen.h>

#include "ckpt/safetensors.h"
#include "ckpt/safetensors_dtype.h"
#include "util/error.h"
#include "util/json.h"
#include "util/text.h"

namespace gputrain {
namespace {

constexpr int64_t kLengthBytes = 8;
constexpr int64_t kMaxHeader = 100'000'000;        // the format's own limit, bytes
constexpr int64_t kReadPiece = int64_t{16} << 20;  // small enough to hash what the cache still holds

// The pieces that one file's checks share.
class HeaderReader {
 public:
  HeaderReader(FileSystem& fs, const std::string& path, Xxh3* hash)
      : fs_(fs), path_(path), hash_(hash), file_size_(fs.size(path)) {}

  std::vector<SafetensorsEntry> read() {
    const int64_t length = read_length();
    std::string text(static_cast<size_t>(length), '\0');
    take(kLengthBytes, text);
    const Json header = parse(text);
    std::vector<SafetensorsEntry> entries;
    for (const auto& [name, value] : header.items()) {
      if (name == "__metadata__") {
        check_metadata(value);
      } else {
        entries.push_back(entry(name, value, kLengthBytes + length));
      }
    }
    check_tiling(entries, kLengthBytes + length);
    return entries;
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    throw Error(ErrorKind::kCheckpoint, "not a valid safetensors file: " + why, path_);
  }
  [[noreturn]] void refuse(const std::string& name, const std::string& why) const {
    refuse("tensor \"" + printable(name) + "\": " + why);
  }

  void take(int64_t offset, std::span<char> out) {
    fs_.read_at(path_, offset, out);
    if (hash_ != nullptr) hash_->update(out);
  }

  int64_t read_length() {
    if (file_size_ < kLengthBytes) {
      refuse("it has " + std::to_string(file_size_) + " bytes, fewer than the 8 of a header length");
    }
    char bytes[kLengthBytes];
    take(0, bytes);
    uint64_t length = 0;
    for (int i = kLengthBytes - 1; i >= 0; --i) length = length << 8 | static_cast<unsigned char>(bytes[i]);
    if (length > static_cast<uint64_t>(kMaxHeader)) {
      refuse("its header length " + std::to_string(length) + " exceeds the limit of " + std::to_string(kMaxHeader));
    }
    if (static_cast<int64_t>(length) > file_size_ - kLengthBytes) {
      refuse("its header needs " + std::to_string(length) + " bytes, the file has " +
             std::to_string(file_size_ - kLengthBytes) + " after the length (truncated?)");
    }
    return static_cast<int64_t>(length);
  }

  Json parse(const std::string& text) const {
    Json header;
    try {
      header = parse_json(text, path_);
    } catch (const Error& error) {
      refuse("its header is " + printable(error.message));
    }
    if (!header.is_object()) refuse("its header is not a JSON object");
    return header;
  }

  void check_metadata(const Json& metadata) const {
    if (metadata.is_null()) return;  // the reference reader takes it as absent
    if (!metadata.is_object()) refuse("__metadata__ is not an object");
    for (const auto& [key, value] : metadata.items()) {
      if (!value.is_string()) refuse("__metadata__ item \"" + printable(key) + "\" is not a string");
    }
  }

  // A list of non-negative integers that fit int64.
  std::vector<int64_t> integers(const std::string& name, const Json& value, const char* key) const {
    const auto found = value.find(key);
    if (found == value.end() || !found->is_array()) refuse(name, std::string("no list ") + key);
    std::vector<int64_t> numbers;
    for (const Json& item : *found) {
      if (!item.is_number_unsigned() || item.get<uint64_t>() > uint64_t{std::numeric_limits<int64_t>::max()}) {
        refuse(name, std::string(key) + " holds " + dump_line(item) + ", not a size");
      }
      numbers.push_back(item.get<int64_t>());
    }
    return numbers;
  }

  SafetensorsEntry entry(const std::string& name, const Json& value, int64_t data_begin) const {
    if (!value.is_object()) refuse(name, "its description is not an object");
    const auto dtype = value.find("dtype");
    if (dtype == value.end() || !dtype->is_string()) refuse(name, "no dtype");
    const SafetensorsDtype* row = find_safetensors_dtype(dtype->get<std::string>());
    if (row == nullptr) refuse(name, "unknown dtype " + printable(dtype->get<std::string>()));

    const std::vector<int64_t> offsets = integers(name, value, "data_offsets");
    if (offsets.size() != 2 || offsets[0] > offsets[1]) refuse(name, "data_offsets is not [begin, end]");
    const int64_t data_size = file_size_ - data_begin;
    if (offsets[1] > data_size) {
      refuse(name, "it ends at byte " + std::to_string(offsets[1]) + " of the data, which has " +
                       std::to_string(data_size) + " (truncated?)");
    }
    SafetensorsEntry entry{name, std::string(row->name), row->scalar_type, integers(name, value, "shape")};
    entry.offset = data_begin + offsets[0];
    entry.bytes = offsets[1] - offsets[0];
    if (bytes_of(entry.shape, row->size) != entry.bytes) {
      refuse(name, "shape " + Json(entry.shape).dump() + " of " + entry.dtype + " does not take the " +
                       std::to_string(entry.bytes) + " bytes it is given");
    }
    return entry;
  }

  // -1 when the product exceeds int64.
  static int64_t bytes_of(const std::vector<int64_t>& shape, int64_t element_size) {
    // A zero anywhere makes the tensor empty, but the other dimensions must not overflow torch's strides either.
    int64_t product = element_size;
    for (const int64_t extent : shape) {
      if (__builtin_mul_overflow(product, std::max<int64_t>(extent, 1), &product)) return -1;
    }
    return std::find(shape.begin(), shape.end(), 0) != shape.end() ? 0 : product;
  }

  // Every byte of the data belongs to exactly one tensor.
  void check_tiling(std::vector<SafetensorsEntry>& entries, int64_t data_begin) const {
    std::stable_sort(entries.begin(), entries.end(), [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
      return std::pair(a.offset, a.bytes) < std::pair(b.offset, b.bytes);
    });
    int64_t end = data_begin;
    for (const SafetensorsEntry& entry : entries) {
      if (entry.offset > end)
        refuse(entry.name, "a hole of " + std::to_string(entry.offset - end) + " bytes before it");
      if (entry.offset < end) refuse(entry.name, "it overlaps the tensor before it");
      end += entry.bytes;
    }
    if (end != file_size_) refuse(std::to_string(file_size_ - end) + " bytes after the last tensor");
  }

  FileSystem& fs_;
  const std::string& path_;
  Xxh3* hash_;
  int64_t file_size_;
};

void check_bools(const at::Tensor& tensor, const SafetensorsEntry& entry, const std::string& path) {
  const std::span<const uint8_t> bytes(static_cast<const uint8_t*>(tensor.const_data_ptr()), tensor.nbytes());
  // Any other value in a bool is undefined behaviour in every kernel that reads it.
  if (std::any_of(bytes.begin(), bytes.end(), [](uint8_t byte) { return byte > 1; })) {
    throw Error(ErrorKind::kCheckpoint,
                "not a valid safetensors file: tensor \"" + printable(entry.name) + "\": a BOOL is neither 0 nor 1",
                path);
  }
}

at::Tensor read_tensor(FileSystem& fs, const std::string& path, const SafetensorsEntry& entry, Xxh3* hash) {
  at::Tensor tensor = at::empty(entry.shape, at::TensorOptions().dtype(entry.scalar_type));
  const std::span<char> memory(static_cast<char*>(tensor.data_ptr()), tensor.nbytes());
  for (int64_t done = 0; done < entry.bytes; done += kReadPiece) {
    const auto piece =
        memory.subspan(static_cast<size_t>(done), static_cast<size_t>(std::min(kReadPiece, entry.bytes - done)));
    fs.read_at(path, entry.offset + done, piece);
    if (hash != nullptr) hash->update(piece);
  }
  if (entry.scalar_type == at::kBool) check_bools(tensor, entry, path);
  return tensor;
}

}  // namespace

std::vector<SafetensorsEntry> read_safetensors_header(FileSystem& fs, const std::string& path, Xxh3* hash) {
  return HeaderReader(fs, path, hash).read();
}

std::map<std::string, at::Tensor> read_safetensors(FileSystem& fs, const std::string& path, Xxh3* hash) {
  std::map<std::string, at::Tensor> tensors;
  for (const SafetensorsEntry& entry : read_safetensors_header(fs, path, hash)) {
    tensors.emplace(entry.name, read_tensor(fs, path, entry, hash));
  }
  return tensors;
}

}  // namespace gputrain

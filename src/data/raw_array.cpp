#include "data/raw_array.h"

#include "data/args.h"
#include "data/content_hash.h"
#include "data/dtype.h"
#include "data/widen.h"
#include "util/text.h"

namespace gputrain {
namespace {

at::ScalarType type_of(const std::string& name, const std::string& role) {
  if (const auto type = dtype_from_name(name)) return *type;
  const auto names = dtype_names();
  throw Error(ErrorKind::kSpec, role + ".dtype '" + printable(name) + "' is unknown", "",
              "the types are " + join_words(names));
}

// Of element `at` of an array in row-major order: "[2, 5]".
std::string index_text(size_t at, const std::vector<int64_t>& shape) {
  std::vector<int64_t> index(shape.size());
  auto rest = static_cast<int64_t>(at);
  for (size_t i = shape.size(); i-- > 0; rest /= shape[i]) index[i] = rest % shape[i];
  return shape_text(index);
}

}  // namespace

RawArray::RawArray(const Json& args, const std::string& role)
    : RawArray(ArgReader(args, role, {"path", "shape", "dtype", "offset"}), role) {}

RawArray::RawArray(const ArgReader& args, const std::string& role)
    : spec_{args.sizes("shape"), type_of(args.text("dtype"), role)},
      offset_(args.integer("offset", 0)),
      sample_bytes_(spec_.elements() * static_cast<int64_t>(at::elementSize(spec_.type))),
      file_(args.text("path"), role) {
  const int64_t bytes = file_.size() - offset_;
  if (offset_ < 0) throw Error(ErrorKind::kSpec, role + ".offset must not be negative");
  const std::string each = std::to_string(sample_bytes_) + " bytes a sample (" + describe(spec_) + ")";
  if (file_.size() == 0) throw file_.error("is empty");
  if (bytes < sample_bytes_) {
    throw file_.error("is too short: " + std::to_string(file_.size()) + " bytes, with offset " +
                      std::to_string(offset_) + " and " + each);
  }
  if (bytes % sample_bytes_ == 0) return;
  throw file_.error("does not hold a whole number of samples: " + std::to_string(file_.size()) + " bytes - offset " +
                        std::to_string(offset_) + " = " + std::to_string(bytes) + ", at " + each + ", is " +
                        plural(bytes / sample_bytes_, "sample") + " and " + std::to_string(bytes % sample_bytes_) +
                        " bytes",
                    "the file is cut, or shape, dtype or offset are not its own");
}

void RawArray::read(int64_t id, std::span<char> sample) const {
  file_.read_at(offset_ + id * sample_bytes_, sample);
}

Json RawArray::fingerprint() const {
  const auto read = [this](int64_t at, std::span<char> out) { file_.read_at(offset_ + at, out); };
  const int64_t bytes = count() * sample_bytes_;
  return {
      {"dtype", dtype_name(spec_.type)}, {"shape", spec_.shape}, {"bytes", bytes}, {"hash", sampled_hash(bytes, read)}};
}

RawColumn::RawColumn(RawArray array, ColumnOptions options) : array_(std::move(array)), options_(std::move(options)) {
  GP_CHECK(options_.values != ColumnValues::kClasses || array_.holds_integers(), "classes are integers");
  array_.file().expect_scattered_reads();
  check_all();
}

SampleSpec RawColumn::spec() const {
  SampleSpec spec = array_.spec();
  if (options_.values == ColumnValues::kClasses) spec.type = at::kLong;
  if (options_.values == ColumnValues::kNumbers && array_.holds_integers()) spec.type = at::kDouble;
  return spec;
}

void RawColumn::read(int64_t id, void* out) const {
  const auto elements = static_cast<size_t>(array_.spec().elements());
  if (options_.values == ColumnValues::kClasses) {
    read_classes(id, {static_cast<int64_t*>(out), elements});
  } else if (options_.values == ColumnValues::kNumbers && array_.holds_integers()) {
    const std::span values(static_cast<double*>(out), elements);
    const std::span<char> stored = tail_for(array_.spec().type, values);
    array_.read(id, stored);
    widen(array_.spec().type, stored.data(), values);
  } else {
    array_.read(id, {static_cast<char*>(out), static_cast<size_t>(array_.sample_bytes())});
  }
}

void RawColumn::read_classes(int64_t id, std::span<int64_t> out) const {
  const auto& [shape, type] = array_.spec();
  const std::span<char> stored = tail_for(type, out);
  array_.read(id, stored);
  widen(type, stored.data(), out);
  const auto bad = options_.range.first_outside(out);
  if (!bad) return;
  const std::string place = "sample " + std::to_string(id) + (shape.empty() ? "" : " " + index_text(*bad, shape));
  throw array_.file().error(options_.range.problem(options_.noun, out[*bad], place),
                            "check the model's num_classes or vocab_size, and dtype and offset of the array");
}

// Of a large file only what is read later is checked.
void RawColumn::check_all() const {
  constexpr int64_t kCheap = 64 << 20;
  if (options_.values != ColumnValues::kClasses || !options_.range.classes) return;
  if (array_.count() * array_.sample_bytes() > kCheap) return;
  std::vector<int64_t> values(static_cast<size_t>(array_.spec().elements()));
  for (int64_t id = 0; id < array_.count(); ++id) read_classes(id, values);
}

}  // namespace gputrain

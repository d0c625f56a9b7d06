#include <cstring>

#include "data/args.h"
#include "data/content_hash.h"
#include "data/data_file.h"
#include "data/dtype.h"
#include "data/pipeline.h"
#include "data/sources.h"
#include "util/text.h"

namespace gputrain {
namespace {

// One headerless array in a file.
class RawArray {
 public:
  RawArray(const Json& args, const std::string& role)
      : RawArray(ArgReader(args, role, {"path", "shape", "dtype", "offset"}), role) {}

  const SampleSpec& spec() const { return spec_; }
  const DataFile& file() const { return file_; }
  DataFile& file() { return file_; }
  int64_t count() const { return (file_.size() - offset_) / sample_bytes_; }
  int64_t sample_bytes() const { return sample_bytes_; }

  void read(int64_t id, void* sample) const {
    file_.read_at(offset_ + id * sample_bytes_, {static_cast<char*>(sample), static_cast<size_t>(sample_bytes_)});
  }

  Json fingerprint() const {
    const auto read = [this](int64_t at, std::span<char> out) { file_.read_at(offset_ + at, out); };
    const int64_t bytes = count() * sample_bytes_;
    return {{"dtype", dtype_name(spec_.type)},
            {"shape", spec_.shape},
            {"bytes", bytes},
            {"hash", sampled_hash(bytes, read)}};
  }

 private:
  RawArray(const ArgReader& args, const std::string& role)
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

  static at::ScalarType type_of(const std::string& name, const std::string& role) {
    if (const auto type = dtype_from_name(name)) return *type;
    const auto names = dtype_names();
    throw Error(ErrorKind::kSpec, role + ".dtype '" + printable(name) + "' is unknown", "",
                "the types are " + join_words(names));
  }

  SampleSpec spec_;
  int64_t offset_;
  int64_t sample_bytes_;
  DataFile file_;
};

int64_t integer_at(const void* bytes, at::ScalarType type) {
  const auto as = [bytes](auto value) {
    std::memcpy(&value, bytes, sizeof value);
    return static_cast<int64_t>(value);
  };
  switch (type) {
    case at::kByte:
      return as(uint8_t{});
    case at::kChar:
      return as(int8_t{});
    case at::kShort:
      return as(int16_t{});
    case at::kInt:
      return as(int32_t{});
    default:
      return as(int64_t{});
  }
}

class RawSource : public Source {
 public:
  RawSource(const Json& inputs, const Json& targets, const SourceRequest& request)
      : inputs_(inputs, request.role + ".inputs"),
        targets_(targets, request.role + ".targets"),
        labels_(targets_.spec().shape.empty() && at::isIntegralType(targets_.spec().type, false)),
        num_classes_(request.num_classes) {
    if (inputs_.count() != targets_.count()) {
      throw targets_.file().error("has " + std::to_string(targets_.count()) + " targets for the " +
                                      std::to_string(inputs_.count()) + " inputs of " + inputs_.file().path(),
                                  "check shape and dtype of both");
    }
    inputs_.file().expect_scattered_reads();
    targets_.file().expect_scattered_reads();
    if (labels_ && num_classes_ >= 0) check_labels();
  }

  int64_t size() const override { return inputs_.count(); }
  std::vector<int64_t> sample_shape() const override { return inputs_.spec().shape; }
  at::ScalarType sample_type() const override { return inputs_.spec().type; }
  at::ScalarType target_type() const override { return labels_ ? at::kLong : targets_.spec().type; }
  std::vector<int64_t> target_shape() const override { return targets_.spec().shape; }

  void read(int64_t id, void* sample, void* target) const override {
    GP_CHECK(id >= 0 && id < size(), "sample " + std::to_string(id));
    inputs_.read(id, sample);
    if (!labels_) return targets_.read(id, target);
    const int64_t label = label_at(id);
    std::memcpy(target, &label, sizeof label);
  }

  void check_unchanged() const override {
    inputs_.file().check_size();
    targets_.file().check_size();
  }

  Json fingerprint() const override {
    return {{"format", "raw"},
            {"samples", size()},
            {"shape", sample_shape()},
            {"dtype", dtype_name(sample_type())},
            {"inputs", inputs_.fingerprint()},
            {"targets", targets_.fingerprint()}};
  }

 private:
  int64_t label_at(int64_t id) const {
    char bytes[8];
    targets_.read(id, bytes);
    const int64_t label = integer_at(bytes, targets_.spec().type);
    if (num_classes_ < 0 || (label >= 0 && label < num_classes_)) return label;
    throw targets_.file().error(label_problem(label, id, num_classes_),
                                "check num_classes, dtype and offset of the targets");
  }

  // Of a large file only what is read later is checked.
  void check_labels() const {
    constexpr int64_t kCheap = 64 << 20;
    if (size() * targets_.sample_bytes() > kCheap) return;
    for (int64_t id = 0; id < size(); ++id) label_at(id);
  }

  RawArray inputs_;
  RawArray targets_;
  bool labels_;          // integer scalars are class labels, widened to int64
  int64_t num_classes_;  // -1: labels are not checked
};

}  // namespace

std::unique_ptr<Source> open_raw(const SourceRequest& request) {
  const ArgReader args(request.args, request.role, {"inputs", "targets"});
  return std::make_unique<RawSource>(args.object("inputs"), args.object("targets"), request);
}

}  // namespace gputrain

#include "data/args.h"
#include "data/dtype.h"
#include "data/raw_array.h"
#include "data/sources.h"
#include "util/text.h"

namespace gputrain {
namespace {

[[noreturn]] void refuse(const RawArray& array, const std::string& wanted) {
  throw Error(ErrorKind::kSpec, array.file().role() + " is " + describe(array.spec()) + ": " + wanted);
}

void check_masks(const RawArray& images, const RawArray& masks) {
  const auto& shape = images.spec().shape;
  if (shape.size() != 3 && shape.size() != 4)
    refuse(images, "segmentation takes images [channels, height, width] or [channels, depth, height, width]");
  const std::vector<int64_t> pixels(shape.begin() + 1, shape.end());
  if (!masks.holds_integers() || masks.spec().shape != pixels)
    refuse(masks, "the mask of an image of " + shape_text(shape) + " is integers of " + shape_text(pixels));
}

void check_tokens(const RawArray& inputs, const RawArray& targets) {
  const auto& shape = inputs.spec().shape;
  if (!inputs.holds_integers() || shape.size() != 1) refuse(inputs, "language_model takes tokens: integers [length]");
  if (!targets.holds_integers() || targets.spec().shape != shape)
    refuse(targets, "language_model needs an integer for each of the " + shape_text(shape) + " tokens");
}

void check_arrays(const RawArray& inputs, const RawArray& targets, Task task) {
  if (task == Task::kSegmentation) check_masks(inputs, targets);
  if (task == Task::kLanguageModel) check_tokens(inputs, targets);
  if (inputs.count() == targets.count()) return;
  throw targets.file().error("has " + std::to_string(targets.count()) + " targets for the " +
                                 std::to_string(inputs.count()) + " inputs of " + inputs.file().path(),
                             "check shape and dtype of both");
}

ColumnOptions input_options(const SourceOptions& options) {
  if (options.task != Task::kLanguageModel) return {};
  return {ColumnValues::kClasses, {.classes = options.classes, .ignore_index = std::nullopt}, "token"};
}

ColumnOptions target_options(const RawArray& targets, const SourceOptions& options) {
  switch (options.task) {
    case Task::kClassification:
      if (!targets.holds_integers() || !targets.spec().shape.empty()) return {};
      return {ColumnValues::kClasses, {.classes = options.classes, .ignore_index = std::nullopt}, "label"};
    case Task::kSegmentation:
      return {ColumnValues::kClasses, {options.classes, options.ignore_index}, "class"};
    case Task::kLanguageModel:
      return {ColumnValues::kClasses, {options.classes, options.ignore_index}, "token"};
    case Task::kRegression:
      break;
  }
  return {.values = ColumnValues::kNumbers, .range = {}};
}

class RawSource : public Source {
 public:
  RawSource(RawColumn inputs, RawColumn targets, std::optional<int64_t> mask_padding)
      : inputs_(std::move(inputs)), targets_(std::move(targets)), mask_padding_(mask_padding) {}

  int64_t size() const override { return inputs_.array().count(); }
  std::vector<int64_t> sample_shape() const override { return inputs_.spec().shape; }
  at::ScalarType sample_type() const override { return inputs_.spec().type; }
  at::ScalarType target_type() const override { return targets_.spec().type; }
  std::vector<int64_t> target_shape() const override { return targets_.spec().shape; }
  std::optional<int64_t> mask_padding() const override { return mask_padding_; }

  void read(int64_t id, void* sample, void* target) const override {
    GP_CHECK(id >= 0 && id < size(), "sample " + std::to_string(id));
    inputs_.read(id, sample);
    targets_.read(id, target);
  }

  void check_unchanged() const override {
    inputs_.array().file().check_size();
    targets_.array().file().check_size();
  }

  Json fingerprint() const override {
    return {{"format", "raw"},
            {"samples", size()},
            {"shape", sample_shape()},
            {"dtype", dtype_name(inputs_.array().spec().type)},
            {"inputs", inputs_.array().fingerprint()},
            {"targets", targets_.array().fingerprint()}};
  }

 private:
  RawColumn inputs_;
  RawColumn targets_;
  std::optional<int64_t> mask_padding_;
};

}  // namespace

std::unique_ptr<Source> open_raw(const SourceRequest& request) {
  const ArgReader args(request.args, request.role, {"inputs", "targets"});
  const SourceOptions& options = request.options;
  RawArray inputs(args.object("inputs"), request.role + ".inputs");
  RawArray targets(args.object("targets"), request.role + ".targets");
  check_arrays(inputs, targets, options.task);
  std::optional<int64_t> mask_padding;
  if (options.task == Task::kSegmentation) mask_padding = options.ignore_index.value_or(0);
  ColumnOptions of_targets = target_options(targets, options);
  return std::make_unique<RawSource>(RawColumn(std::move(inputs), input_options(options)),
                                     RawColumn(std::move(targets), std::move(of_targets)), mask_padding);
}

}  // namespace gputrain

#pragma once
// What becomes of a target on its way into a batch: labels and tokens stay as they are, numbers take the batch's
// floating-point type, masks move with their image.
#include <cstdint>
#include <memory>
#include <optional>

#include "data/loader.h"
#include "data/pipeline.h"

namespace gputrain {

// Immutable; apply() is thread-safe.
class TargetTransform {
 public:
  // `inputs` is what the source's samples go through. It must outlive this.
  TargetTransform(const Source& source, const Pipeline& inputs, at::ScalarType float_type);

  const SampleSpec& input() const { return input_; }  // as the source gives it
  const SampleSpec& output() const { return output_; }
  bool is_copy() const { return numbers_ == nullptr && !padding_; }
  void apply(const void* raw, void* row, int64_t epoch, int64_t id) const;  // not for a copy

 private:
  const Pipeline& inputs_;
  SampleSpec input_, output_;
  std::unique_ptr<Pipeline> numbers_;
  std::optional<int64_t> padding_;  // set: a mask, and there are flips or crops
};

}  // namespace gputrain

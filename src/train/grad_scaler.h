#pragma once
#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "util/json.h"

namespace gputrain {

struct GradScalerOptions {
  double initial_scale = 65536;
  double growth_factor = 2;
  double backoff_factor = 0.5;
  int64_t growth_interval = 2000;  // good steps in a row before the scale grows
  double floor = 1;                // what overflows at this scale overflows without one
};

// Dynamic loss scaling with the semantics of torch.amp.GradScaler (scale 65536, growth x2 after 2000 good steps,
// backoff x0.5), over _amp_foreach_non_finite_check_and_unscale_ and _amp_update_scale_. Disabled (every precision but
// fp16) it is the identity. Order of a step: scale(loss) ... backward ... unscale (after the reduction, so that all
// ranks see the same) -> clip -> step -> update.
class GradScaler {
 public:
  GradScaler(bool enabled, at::Device device, GradScalerOptions options = {});
  bool enabled() const;
  at::Tensor scale(const at::Tensor& loss) const;
  // Divides the gradients in place by the scale. Returns whether any was not finite (waits for the device). Once a
  // step: Error(kInternal) when called twice without update(). Disabled: does nothing, false.
  bool unscale(const std::vector<at::Tensor>& gradients);
  // After the step (skipped or not): backs off or grows. `found_inf` is what all ranks agreed on. Error(kInternal)
  // without unscale().
  void update(bool found_inf);
  double current() const;  // 0 when disabled
  // A gradient that is not finite now is none of the scale's doing: backing off further cannot help.
  bool exhausted() const;
  Json state() const;  // {scale, growth_tracker}; {} when disabled
  // Error(kCheckpoint) for a missing, unknown or malformed item.
  void load(const Json& state);

 private:
  bool enabled_;
  bool unscaled_ = false;
  GradScalerOptions options_;
  at::Tensor scale_, growth_tracker_, found_inf_;
};

// Cuts each element to [-limit, limit], as torch.nn.utils.clip_grad_value_.
void clip_grad_value(const std::vector<at::Tensor>& gradients, double limit);

// Global L2 norm over all gradients (float64 accumulate is not used: same result as torch.nn.utils.clip_grad_norm_ with
// foreach), and, when max_norm > 0, scales the gradients by min(1, max_norm / (norm + 1e-6)). Returns the norm before
// clipping, without a host sync.
at::Tensor clip_grad_norm(const std::vector<at::Tensor>& gradients, double max_norm);

}  // namespace gputrain

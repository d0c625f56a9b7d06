#include <ATen/ATen.h>

#include "train/grad_scaler.h"

namespace gputrain {

void clip_grad_value(const std::vector<at::Tensor>& gradients, double limit) {
  const at::NoGradGuard no_grad;
  at::_foreach_clamp_min_(gradients, -limit);
  at::_foreach_clamp_max_(gradients, limit);
}

// The operations of torch.nn.utils.clip_grad_norm_, one by one: other orders of summation round differently.
at::Tensor clip_grad_norm(const std::vector<at::Tensor>& gradients, double max_norm) {
  if (gradients.empty()) return at::zeros({});
  const at::NoGradGuard no_grad;
  const at::Tensor norm = at::linalg_vector_norm(at::stack(at::_foreach_norm(gradients, 2)), 2);
  if (max_norm > 0) {
    at::_foreach_mul_(gradients, (max_norm / (norm + 1e-6)).clamp_max(1.0));
  }
  return norm;
}

}  // namespace gputrain

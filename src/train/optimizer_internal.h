#pragma once
#include <optional>

#include <ATen/core/Tensor.h>

namespace gputrain {

// The kernels skip when the flag is exactly 1; ours means any non-zero (a sum over ranks). nullopt when there is no
// flag. No host sync.
std::optional<at::Tensor> skip_flag(const at::Tensor& found_inf);

}  // namespace gputrain

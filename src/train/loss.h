#pragma once
#include <ATen/core/Tensor.h>

namespace gputrain {

// Classification: cross entropy of [n, classes] logits and [n] integer targets, summed over the samples (not averaged:
// the step divides once by the count of all its samples, on all ranks). Computed in float, or in double for double
// logits, whatever autocast made of the logits. n = 0 gives 0, with a gradient of 0. Error(kData) for a target outside
// 0..classes-1 (checked on the CPU only; on a GPU it would cost a wait, and its kernel aborts).
at::Tensor cross_entropy_sum(const at::Tensor& logits, const at::Tensor& targets);

// The same for each sample, [n]: evaluation sums these in double, so that the result does not depend on how samples
// were batched.
at::Tensor cross_entropy_each(const at::Tensor& logits, const at::Tensor& targets);

}  // namespace gputrain

#pragma once
#include <cstdint>
#include <optional>

#include <ATen/core/Reduction.h>
#include <ATen/core/Tensor.h>

namespace gputrain {

struct CrossEntropyOptions {
  double label_smoothing = 0;
  std::optional<int64_t> ignore_index;  // targets of this value give 0
};

// Cross entropy of [n, classes, ...] logits and [n, ...] integer targets, each in 0..classes-1 (or ignored), summed:
// the step divides once by the count of all its samples or tokens, on all ranks. Computed in float, or in double for
// double logits, whatever autocast made of the logits. n = 0 gives 0, with a gradient of 0. As
// torch.nn.functional.cross_entropy. Targets out of range are the caller's to refuse: on a GPU the kernel aborts.
at::Tensor cross_entropy_sum(const at::Tensor& logits, const at::Tensor& targets,
                             const CrossEntropyOptions& options = {});

// The same for each target, of its shape: evaluation sums these in double, so that the result does not depend on how
// samples were batched.
at::Tensor cross_entropy_each(const at::Tensor& logits, const at::Tensor& targets,
                              const CrossEntropyOptions& options = {});

// 1 - Dice of each sample, [n]: Dice = (2 sum(p t) + 1e-5) / (sum(p) + sum(t) + 1e-5) over a sample's pixels, p the
// softmax of the logits and t one-hot, averaged over all classes, the first (background) too. Pixels with an ignored
// target are left out of all sums. As MONAI's DiceLoss(softmax=True, to_onehot_y=True) with its default smoothing.
// Logits [n, classes, ...], targets [n, ...].
at::Tensor dice_loss_each(const at::Tensor& logits, const at::Tensor& targets, std::optional<int64_t> ignore_index);

// Logits as losses compute on them: float, or double if they are.
at::Tensor widened(const at::Tensor& logits);

}  // namespace gputrain

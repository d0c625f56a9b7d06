#pragma once
#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "spec/plan.h"

namespace gputrain {

// A micro-batch whose samples are each mixed with the one before it (the first with the last), as torchvision's MixUp
// and CutMix do: the loss is share * loss(targets) + (1 - share) * loss(others), which is the loss of the mixed one-hot
// targets.
struct Mixed {
  at::Tensor inputs;
  at::Tensor others;  // targets of the samples mixed in; undefined = nothing was mixed
  double share = 1;   // of the sample itself
};

// `key` decides what is drawn: the same on all ranks and for all micro-batches of a step. Whom a sample meets depends
// on how the step is cut, like BatchNorm's statistics do. cutmix needs images [n, channels, height, width] or with more
// dimensions in front of these: Error(kSpec). A micro-batch of one sample meets itself.
Mixed mix(const MixPlan& plan, uint64_t key, const at::Tensor& inputs, const at::Tensor& targets);

}  // namespace gputrain

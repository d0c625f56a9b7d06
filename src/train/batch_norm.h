#pragma once
// BatchNorm in training needs more than one value a channel: a micro-batch of one sample has too few where the model's
// last layers leave one pixel of it.
#include <cstdint>
#include <vector>

#include <c10/core/Device.h>

#include "model/model.h"
#include "spec/plan.h"

namespace gputrain {

struct BatchNormFacts {
  int64_t samples = 0;      // of the training set
  int64_t total_steps = 0;  // of the run
  int64_t steps_per_epoch = 0;
  std::vector<int64_t> input_shape;  // of one sample, after the transforms
  at::Device device = at::kCPU;      // the model's
};

// Throws Error(kSpec) that names the first step and rank at which training would fail so, and the remedy. Before
// training, as it is known then; the same on every rank. Leaves the model as it was.
void check_batch_norm(const RunPlan& plan, Model& model, const BatchNormFacts& facts);

}  // namespace gputrain

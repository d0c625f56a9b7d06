#pragma once
// What a run learns: how a model's outputs and the targets become a loss to train on and metrics to judge by. One
// subclass a task, in a file of its own. Stateless: safe to use from any thread.
//
// Losses are sums. A step divides once, by the count of all its samples (or tokens) on all ranks, so that gradients do
// not depend on ranks and micro-batches. Metrics are plain sums too (in double), which ranks add up.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "spec/plan.h"
#include "train/metrics.h"

namespace gputrain {

class Objective {
 public:
  virtual ~Objective() = default;

  // What counts in the loss of a step: samples; for language_model the tokens that are not ignored. `targets` are a
  // micro-batch's on the host.
  virtual int64_t count(const at::Tensor& targets) const { return targets.size(0); }
  // The same from the number of samples alone, `target_shape` that of one sample's target; nullopt where only the
  // targets tell.
  virtual std::optional<int64_t> count_of(int64_t samples, const std::vector<int64_t>& /*target_shape*/) const {
    return samples;
  }

  // Refuses what the loss cannot be computed of. Error(kSpec) when outputs and targets do not fit each other in shape
  // ([n, ...] both); Error(kData) for a target out of range, with its place in the micro-batch (`ids`: the samples).
  // Targets are on the host: nothing here waits for a device.
  virtual void check(const at::Tensor& outputs, const at::Tensor& targets, const std::vector<int64_t>& ids) const = 0;

  // The loss to train on, summed over what counts: a scalar with a graph. Outputs and targets on the same device.
  virtual at::Tensor loss_sum(const at::Tensor& outputs, const at::Tensor& targets) const = 0;

  // A batch's part of the evaluation, double [sum_count()], on the outputs' device and without waiting for it. Zeros
  // added to those of all batches of all ranks are what `metrics` takes.
  virtual at::Tensor sums(const at::Tensor& outputs, const at::Tensor& targets) const = 0;
  virtual int64_t sum_count() const = 0;
  // In the order in which people see them; NaN where there was nothing to measure. `sums` on the host.
  virtual Metrics metrics(const at::Tensor& sums) const = 0;
};

// `classes`: see classes_of_output.
std::unique_ptr<Objective> make_objective(const RunPlan& plan, int64_t classes);

// How many classes (or values) the outputs of one sample or more tell apart: their second dimension, for language_model
// the last. Error(kSpec) for outputs that the task cannot use.
int64_t classes_of_output(Task task, at::IntArrayRef output_shape);

}  // namespace gputrain

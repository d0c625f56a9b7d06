#include "train/adam_moments.h"

#include <ATen/ATen.h>

namespace gputrain {

AdamMoments::AdamMoments(NamedParameters parameters) {
  for (auto& [name, parameter] : parameters) {
    slots_.push_back({.name = std::move(name),
                      .parameter = parameter,
                      .exp_avg = at::zeros_like(parameter),
                      .exp_avg_sq = at::zeros_like(parameter),
                      .step = at::zeros({}, parameter.options().dtype(at::kFloat))});
  }
}

AdamMoments::Update AdamMoments::begin_update() {
  Update update;
  for (const Slot& slot : slots_) {
    if (!slot.parameter.grad().defined()) continue;
    update.parameters.push_back(slot.parameter);
    update.gradients.push_back(slot.parameter.grad());
    update.exp_avgs.push_back(slot.exp_avg);
    update.exp_avg_sqs.push_back(slot.exp_avg_sq);
    update.steps.push_back(slot.step);
  }
  if (!update.steps.empty()) at::_foreach_add_(update.steps, 1);
  return update;
}

NamedParameters AdamMoments::state() const {
  NamedParameters out;
  for (const Slot& slot : slots_) {
    out.emplace_back(slot.name + "/exp_avg", slot.exp_avg);
    out.emplace_back(slot.name + "/exp_avg_sq", slot.exp_avg_sq);
    out.emplace_back(slot.name + "/step", slot.step);
  }
  return out;
}

}  // namespace gputrain

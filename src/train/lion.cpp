#include "train/lion.h"

#include <tuple>

#include <ATen/ATen.h>

namespace gputrain {

Lion::Lion(const NamedArgs& args, NamedParameters parameters)
    : lr_(args.number("lr")), weight_decay_(args.number("weight_decay")) {
  std::tie(beta1_, beta2_) = betas_of(args);
  for (auto& [name, parameter] : parameters) {
    slots_.push_back({.name = std::move(name), .parameter = parameter, .exp_avg = at::zeros_like(parameter)});
  }
}

void Lion::step(double lr_factor) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> parameters, gradients, exp_avgs;
  for (const Slot& slot : slots_) {
    if (!slot.parameter.grad().defined()) continue;
    parameters.push_back(slot.parameter);
    gradients.push_back(slot.parameter.grad());
    exp_avgs.push_back(slot.exp_avg);
  }
  if (parameters.empty()) return;
  const double lr = lr_ * lr_factor;
  if (weight_decay_ != 0) at::_foreach_mul_(parameters, 1 - lr * weight_decay_);
  std::vector<at::Tensor> directions = at::_foreach_mul(exp_avgs, beta1_);
  at::_foreach_add_(directions, gradients, 1 - beta1_);
  at::_foreach_sign_(directions);
  at::_foreach_add_(parameters, directions, -lr);
  at::_foreach_mul_(exp_avgs, beta2_);
  at::_foreach_add_(exp_avgs, gradients, 1 - beta2_);
}

NamedParameters Lion::state() const {
  NamedParameters out;
  for (const Slot& slot : slots_) out.emplace_back(slot.name + "/exp_avg", slot.exp_avg);
  return out;
}

}  // namespace gputrain

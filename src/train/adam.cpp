#include "train/adam.h"

#include <tuple>

#include <ATen/ATen.h>

namespace gputrain {

Adam::Adam(Decay decay, const NamedArgs& args, NamedParameters parameters)
    : decay_(decay), lr_(args.number("lr")), eps_(args.number("eps")), weight_decay_(args.number("weight_decay")) {
  std::tie(beta1_, beta2_) = betas_of(args);
  for (auto& [name, parameter] : parameters) {
    slots_.push_back({.name = std::move(name),
                      .parameter = parameter,
                      .exp_avg = at::zeros_like(parameter),
                      .exp_avg_sq = at::zeros_like(parameter),
                      .step = at::zeros({}, parameter.options().dtype(at::kFloat))});
  }
}

void Adam::step(double lr_factor) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> parameters, gradients, exp_avgs, exp_avg_sqs, steps;
  for (const Slot& slot : slots_) {
    if (!slot.parameter.grad().defined()) continue;
    parameters.push_back(slot.parameter);
    gradients.push_back(slot.parameter.grad());
    exp_avgs.push_back(slot.exp_avg);
    exp_avg_sqs.push_back(slot.exp_avg_sq);
    steps.push_back(slot.step);
  }
  if (parameters.empty()) return;
  at::_foreach_add_(steps, 1);
  const double lr = lr_ * lr_factor;
  constexpr bool kAmsgrad = false, kMaximize = false;
  if (decay_ == Decay::kDecoupled) {
    at::_fused_adamw_(parameters, gradients, exp_avgs, exp_avg_sqs, /*max_exp_avg_sqs=*/{}, steps, lr, beta1_, beta2_,
                      weight_decay_, eps_, kAmsgrad, kMaximize);
  } else {
    at::_fused_adam_(parameters, gradients, exp_avgs, exp_avg_sqs, /*max_exp_avg_sqs=*/{}, steps, lr, beta1_, beta2_,
                     weight_decay_, eps_, kAmsgrad, kMaximize);
  }
}

NamedParameters Adam::state() const {
  NamedParameters out;
  for (const Slot& slot : slots_) {
    out.emplace_back(slot.name + "/exp_avg", slot.exp_avg);
    out.emplace_back(slot.name + "/exp_avg_sq", slot.exp_avg_sq);
    out.emplace_back(slot.name + "/step", slot.step);
  }
  return out;
}

}  // namespace gputrain

#include "train/lamb.h"

#include <tuple>

#include <ATen/ATen.h>

namespace gputrain {
namespace {

// 1 - beta^step of each parameter, in the parameters' type.
std::vector<at::Tensor> bias_corrections(double beta, const std::vector<at::Tensor>& steps, at::ScalarType type) {
  std::vector<at::Tensor> corrections;
  corrections.reserve(steps.size());
  for (const at::Tensor& step : steps) corrections.push_back((1 - at::pow(beta, step.to(at::kDouble))).to(type));
  return corrections;
}

}  // namespace

Lamb::Lamb(const NamedArgs& args, NamedParameters parameters)
    : lr_(args.number("lr")),
      eps_(args.number("eps")),
      weight_decay_(args.number("weight_decay")),
      moments_(std::move(parameters)) {
  std::tie(beta1_, beta2_) = betas_of(args);
}

void Lamb::step(double lr_factor) {
  const at::NoGradGuard no_grad;
  auto [parameters, gradients, exp_avgs, exp_avg_sqs, steps] = moments_.begin_update();
  if (parameters.empty()) return;
  const at::ScalarType type = parameters.front().scalar_type();
  at::_foreach_mul_(exp_avgs, beta1_);
  at::_foreach_add_(exp_avgs, gradients, 1 - beta1_);
  at::_foreach_mul_(exp_avg_sqs, beta2_);
  at::_foreach_addcmul_(exp_avg_sqs, gradients, gradients, 1 - beta2_);

  std::vector<at::Tensor> denominators = at::_foreach_div(exp_avg_sqs, bias_corrections(beta2_, steps, type));
  at::_foreach_sqrt_(denominators);
  at::_foreach_add_(denominators, eps_);
  std::vector<at::Tensor> updates = at::_foreach_div(exp_avgs, bias_corrections(beta1_, steps, type));
  at::_foreach_div_(updates, denominators);
  if (weight_decay_ != 0) at::_foreach_add_(updates, parameters, weight_decay_);

  const std::vector<at::Tensor> weights = at::_foreach_norm(parameters), lengths = at::_foreach_norm(updates);
  std::vector<at::Tensor> ratios;
  ratios.reserve(updates.size());
  for (size_t i = 0; i < updates.size(); ++i) {
    ratios.push_back(at::where((weights[i] > 0).logical_and(lengths[i] > 0), weights[i] / lengths[i], 1.0).to(type));
  }
  at::_foreach_mul_(updates, ratios);
  at::_foreach_add_(parameters, updates, -lr_ * lr_factor);
}

}  // namespace gputrain

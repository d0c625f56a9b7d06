#include "train/adam.h"

#include <tuple>

#include <ATen/ATen.h>

namespace gputrain {

Adam::Adam(Decay decay, const NamedArgs& args, NamedParameters parameters)
    : decay_(decay),
      lr_(args.number("lr")),
      eps_(args.number("eps")),
      weight_decay_(args.number("weight_decay")),
      moments_(std::move(parameters)) {
  std::tie(beta1_, beta2_) = betas_of(args);
}

void Adam::step(double lr_factor) {
  const at::NoGradGuard no_grad;
  auto [parameters, gradients, exp_avgs, exp_avg_sqs, steps] = moments_.begin_update();
  if (parameters.empty()) return;
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

}  // namespace gputrain

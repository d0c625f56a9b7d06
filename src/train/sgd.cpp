#include "train/sgd.h"

#include <ATen/ATen.h>

#include "util/error.h"

namespace gputrain {

Sgd::Sgd(const NamedArgs& args, NamedParameters parameters)
    : lr_(args.number("lr")),
      momentum_(args.number("momentum")),
      weight_decay_(args.number("weight_decay")),
      nesterov_(args.flag("nesterov")) {
  if (nesterov_ && momentum_ <= 0) {
    throw Error(ErrorKind::kSpec, "sgd.nesterov needs momentum above 0", "", "set momentum: 0.9, or nesterov: false");
  }
  for (auto& [name, parameter] : parameters) {
    slots_.push_back({.name = std::move(name),
                      .parameter = parameter,
                      .momentum_buffer = momentum_ == 0 ? at::Tensor() : at::zeros_like(parameter)});
  }
}

void Sgd::step(double lr_factor) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> parameters, gradients, buffers;
  for (const Slot& slot : slots_) {
    if (!slot.parameter.grad().defined()) continue;
    parameters.push_back(slot.parameter);
    gradients.push_back(slot.parameter.grad());
    if (momentum_ != 0) buffers.push_back(slot.momentum_buffer);
  }
  if (parameters.empty()) return;
  at::_fused_sgd_(parameters, gradients, buffers, weight_decay_, momentum_, lr_ * lr_factor, /*dampening=*/0.0,
                  nesterov_,
                  /*maximize=*/false, /*is_first_step=*/false);
}

NamedParameters Sgd::state() const {
  NamedParameters out;
  if (momentum_ == 0) return out;
  for (const Slot& slot : slots_) out.emplace_back(slot.name + "/momentum_buffer", slot.momentum_buffer);
  return out;
}

}  // namespace gputrain

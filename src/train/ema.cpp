#include "train/ema.h"

#include <ATen/ATen.h>

namespace gputrain {

Ema::Ema(double decay, NamedParameters parameters) : decay_(decay) {
  for (auto& [name, parameter] : parameters) {
    names_.push_back(std::move(name));
    parameters_.push_back(parameter);
    averages_.push_back(parameter.detach().clone());
  }
}

void Ema::update() {
  const at::NoGradGuard no_grad;
  at::_foreach_lerp_(averages_, parameters_, 1 - decay_);
}

void Ema::reset() {
  const at::NoGradGuard no_grad;
  at::_foreach_copy_(averages_, parameters_);
}

NamedParameters Ema::state() const {
  NamedParameters out;
  for (size_t i = 0; i < names_.size(); ++i) out.emplace_back(names_[i] + "/ema", averages_[i]);
  return out;
}

Ema::Applied::Applied(const Ema& ema) : ema_(ema) {
  const at::NoGradGuard no_grad;
  own_.reserve(ema.parameters_.size());
  for (const at::Tensor& parameter : ema.parameters_) own_.push_back(parameter.detach().clone());
  std::vector<at::Tensor> parameters = ema.parameters_;
  at::_foreach_copy_(parameters, ema.averages_);
}

Ema::Applied::~Applied() {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> parameters = ema_.parameters_;
  at::_foreach_copy_(parameters, own_);
}

}  // namespace gputrain

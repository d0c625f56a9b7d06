#pragma once
#include "model/args.h"
#include "train/adam_moments.h"

namespace gputrain {

// Adam over at::_fused_adam_, with decoupled weight decay AdamW over at::_fused_adamw_: equal to torch.optim's
// (fused=True) to the bit.
class Adam : public Optimizer {
 public:
  enum class Decay { kAddedToGradient, kDecoupled };
  Adam(Decay decay, const NamedArgs& args, NamedParameters parameters);  // lr, betas, eps, weight_decay
  void step(double lr_factor) override;
  double base_lr() const override { return lr_; }
  NamedParameters state() const override { return moments_.state(); }

 private:
  Decay decay_;
  double lr_, beta1_, beta2_, eps_, weight_decay_;
  AdamMoments moments_;
};

}  // namespace gputrain

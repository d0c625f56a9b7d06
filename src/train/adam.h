#pragma once
#include "model/args.h"
#include "train/optimizer.h"

namespace gputrain {

// Adam over at::_fused_adam_, with decoupled weight decay AdamW over at::_fused_adamw_: equal to torch.optim's
// (fused=True) to the bit.
//
// The update counter `step` is one 0-dim float tensor for each parameter, on its device, as in PyTorch.
class Adam : public Optimizer {
 public:
  enum class Decay { kAddedToGradient, kDecoupled };
  Adam(Decay decay, const NamedArgs& args, NamedParameters parameters);  // lr, betas, eps, weight_decay
  void step(double lr_factor) override;
  double base_lr() const override { return lr_; }
  NamedParameters state() const override;

 private:
  struct Slot {
    std::string name;
    at::Tensor parameter, exp_avg, exp_avg_sq, step;
  };

  Decay decay_;
  double lr_, beta1_, beta2_, eps_, weight_decay_;
  std::vector<Slot> slots_;
};

}  // namespace gputrain

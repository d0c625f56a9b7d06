#pragma once
#include "model/args.h"
#include "train/optimizer.h"

namespace gputrain {

// Lion (https://arxiv.org/abs/2302.06675, algorithm 2), over foreach kernels:
//   p <- p (1 - lr weight_decay) - lr sign(beta1 m + (1 - beta1) g);  m <- beta2 m + (1 - beta2) g.
class Lion : public Optimizer {
 public:
  Lion(const NamedArgs& args, NamedParameters parameters);  // lr, betas, weight_decay
  void step(double lr_factor) override;
  double base_lr() const override { return lr_; }
  NamedParameters state() const override;  // exp_avg

 private:
  struct Slot {
    std::string name;
    at::Tensor parameter, exp_avg;
  };

  double lr_, beta1_, beta2_, weight_decay_;
  std::vector<Slot> slots_;
};

}  // namespace gputrain

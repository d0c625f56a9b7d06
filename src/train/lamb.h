#pragma once
#include "model/args.h"
#include "train/adam_moments.h"

namespace gputrain {

// LAMB (https://arxiv.org/abs/1904.00962, algorithm 2, with Adam's bias correction), over foreach kernels: for each
// parameter tensor r = m_hat / (sqrt(v_hat) + eps) + weight_decay p;  p <- p - lr (|p| / |r|) r, the ratio being 1
// where one of the norms is 0. The norms stay on the device.
class Lamb : public Optimizer {
 public:
  Lamb(const NamedArgs& args, NamedParameters parameters);  // lr, betas, eps, weight_decay
  void step(double lr_factor) override;
  double base_lr() const override { return lr_; }
  NamedParameters state() const override { return moments_.state(); }

 private:
  double lr_, beta1_, beta2_, eps_, weight_decay_;
  AdamMoments moments_;
};

}  // namespace gputrain

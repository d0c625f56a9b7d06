#pragma once
#include "model/args.h"
#include "train/optimizer.h"

namespace gputrain {

// Stochastic gradient descent over at::_fused_sgd_; equal to torch.optim.SGD(fused=True).
//
// PyTorch makes the momentum buffer at the first update, as a copy of the gradient. Here it exists from the start as
// zeros and the same formula always holds (momentum * 0 + gradient), so the buffer is the whole state and a loaded one
// needs no flag. (Only the sign of a zero can differ.)
class Sgd : public Optimizer {
 public:
  Sgd(const NamedArgs& args, NamedParameters parameters);  // lr, momentum, nesterov, weight_decay
  void step(double lr_factor) override;
  double base_lr() const override { return lr_; }
  NamedParameters state() const override;  // empty without momentum

 private:
  struct Slot {
    std::string name;
    at::Tensor parameter, momentum_buffer;
  };

  double lr_, momentum_, weight_decay_;
  bool nesterov_;
  std::vector<Slot> slots_;
};

}  // namespace gputrain

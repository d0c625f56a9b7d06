#pragma once
// SGD and AdamW over at::_fused_sgd_ / at::_fused_adamw_: one kernel for all parameters; equal to torch.optim with
// fused=True.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "spec/plan.h"

namespace gputrain {

using NamedParameters = std::vector<std::pair<std::string, at::Tensor>>;

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  // Applies one update with lr = base_lr() * factor to the parameters, from their .grad() (parameters without one are
  // left alone). Never waits for the device.
  virtual void step(double lr_factor) = 0;
  virtual double base_lr() const = 0;
  // State by "<parameter>/<item>" (exp_avg, exp_avg_sq, step; momentum_buffer), in parameter order. The tensors
  // themselves, not copies: saving reads them, loading copies into them.
  virtual std::vector<std::pair<std::string, at::Tensor>> state() const = 0;
};

// Error(kSpec) for an unknown name or argument. State is allocated here (zeros), on the parameters' device. All
// parameters are of one type and on one device.
std::unique_ptr<Optimizer> make_optimizer(const Named& plan, NamedParameters parameters);
std::vector<std::string> optimizer_names();

}  // namespace gputrain

#pragma once
// Optimizers over fused and foreach kernels: few launches for all parameters, no wait for the device.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "model/args.h"
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

// The argument "betas". Error(kSpec) unless it has two numbers.
std::pair<double, double> betas_of(const NamedArgs& args);

}  // namespace gputrain

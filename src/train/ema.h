#pragma once
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "train/optimizer.h"

namespace gputrain {

// The exponential moving average of the parameters: after each applied update average <- lerp(average, p, 1 - decay),
// as torch.optim.swa_utils.get_ema_multi_avg_fn. Starts as a copy of the parameters. Buffers are not averaged:
// BatchNorm keeps its running statistics of the weights themselves, as AveragedModel does by default.
class Ema {
 public:
  Ema(double decay, NamedParameters parameters);
  void update();
  // The average becomes what the parameters are now: a start without a saved one.
  void reset();
  // "<parameter>/ema": the tensors themselves.
  NamedParameters state() const;

  // While it lives the parameters hold the average; then their own values again. Neither is lost.
  class Applied {
   public:
    explicit Applied(const Ema& ema);
    ~Applied();
    Applied(const Applied&) = delete;
    Applied& operator=(const Applied&) = delete;

   private:
    const Ema& ema_;
    std::vector<at::Tensor> own_;
  };

 private:
  double decay_;
  std::vector<std::string> names_;
  std::vector<at::Tensor> parameters_, averages_;
};

}  // namespace gputrain

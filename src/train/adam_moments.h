#pragma once
#include <string>
#include <vector>

#include "train/optimizer.h"

namespace gputrain {

// What Adam and its relatives keep of each parameter: the running means of the gradient and of its square, and the
// number of updates, one 0-dim float tensor for each parameter, on its device, as in PyTorch.
class AdamMoments {
 public:
  explicit AdamMoments(NamedParameters parameters);  // zeros

  // One entry for each parameter that has a gradient.
  struct Update {
    std::vector<at::Tensor> parameters, gradients, exp_avgs, exp_avg_sqs, steps;
  };
  // Begins an update: `steps` count it already. Empty when no parameter has a gradient.
  Update begin_update();
  NamedParameters state() const;  // exp_avg, exp_avg_sq, step

 private:
  struct Slot {
    std::string name;
    at::Tensor parameter, exp_avg, exp_avg_sq, step;
  };

  std::vector<Slot> slots_;
};

}  // namespace gputrain

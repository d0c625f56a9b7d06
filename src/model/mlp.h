#pragma once
#include <vector>

#include <torch/nn/modules/linear.h>

#include "model/args.h"
#include "model/model.h"

namespace gputrain {

// Linear layers fc1, fc2, ... with relu between; inputs are flattened from dimension 1. Dropout after each hidden relu.
class Mlp : public Model {
 public:
  explicit Mlp(const NamedArgs& args);  // in_features, hidden (list), num_classes, dropout
  at::Tensor forward(const at::Tensor& inputs) override;

 private:
  double dropout_;
  std::vector<torch::nn::Linear> layers_;
};

}  // namespace gputrain

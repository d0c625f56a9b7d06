#pragma once
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include "model/args.h"
#include "model/model.h"

namespace gputrain {

// Two 3x3 convolutions with 2x2 max pooling and two linear layers, for 28 x 28 images. Dropout after fc1's relu.
class SmallCnn : public Model {
 public:
  explicit SmallCnn(const NamedArgs& args);  // in_channels, num_classes, dropout
  at::Tensor forward(const at::Tensor& inputs) override;

 private:
  double dropout_;
  torch::nn::Conv2d conv1_{nullptr}, conv2_{nullptr};
  torch::nn::Linear fc1_{nullptr}, fc2_{nullptr};
};

}  // namespace gputrain

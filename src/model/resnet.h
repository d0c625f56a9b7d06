#pragma once
// torchvision's ResNet (v1.5: a bottleneck's stride sits on its 3x3 convolution): same names, initialisation and
// results as torchvision.models.resnet18/34/50/101(weights=None), with the number of input channels free.
#include <array>
#include <memory>
#include <vector>

#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include "model/args.h"
#include "model/model.h"

namespace gputrain {

// A residual block, or a sequence of them (torchvision's layer1..4, children "0", "1", ...).
class ResidualModule : public torch::nn::Module {
 public:
  virtual at::Tensor forward(const at::Tensor& inputs) = 0;
};

struct ResNetLayout {
  bool bottleneck;
  std::array<int, 4> depths;
};
constexpr ResNetLayout kResNet18{.bottleneck = false, .depths = {2, 2, 2, 2}};
constexpr ResNetLayout kResNet34{.bottleneck = false, .depths = {3, 4, 6, 3}};
constexpr ResNetLayout kResNet50{.bottleneck = true, .depths = {3, 4, 6, 3}};
constexpr ResNetLayout kResNet101{.bottleneck = true, .depths = {3, 4, 23, 3}};

class ResNet : public Model {
 public:
  ResNet(const ResNetLayout& layout, const NamedArgs& args);  // in_channels, num_classes
  at::Tensor forward(const at::Tensor& inputs) override;

 private:
  void initialise_convolutions();

  torch::nn::Conv2d conv1_{nullptr};
  torch::nn::BatchNorm2d bn1_{nullptr};
  std::vector<std::shared_ptr<ResidualModule>> layers_;
  torch::nn::Linear fc_{nullptr};
};

}  // namespace gputrain

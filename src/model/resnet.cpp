#include "model/resnet.h"

#include <ATen/ops/adaptive_avg_pool2d.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/relu.h>
#include <torch/nn/init.h>

#include "model/layers.h"

namespace gputrain {
namespace {

struct ConvShape {
  int64_t in, out, kernel, stride;
};

torch::nn::Conv2d conv(const ConvShape& s) {
  return torch::nn::Conv2d(
      torch::nn::Conv2dOptions(s.in, s.out, s.kernel).stride(s.stride).padding(s.kernel / 2).bias(false));
}

// What a block does to its input's shape.
struct BlockShape {
  int64_t in, planes, stride;
};

// The 1x1 convolution and normalisation that fit a block's input to its output: children "0" and "1".
class Projection : public ResidualModule {
 public:
  explicit Projection(const ConvShape& shape)
      : conv_(register_module("0", conv(shape))), bn_(register_module("1", torch::nn::BatchNorm2d(shape.out))) {}
  at::Tensor forward(const at::Tensor& inputs) override { return bn_->forward(conv_->forward(inputs)); }

 private:
  torch::nn::Conv2d conv_;
  torch::nn::BatchNorm2d bn_;
};

// Convolutions conv1, bn1, conv2, bn2, ... with relu between, plus the (projected) input, relu.
//
// Order matters twice: torchvision draws the projection's weights before the block's, but lists them after.
class Block : public ResidualModule {
 public:
  Block(const std::vector<ConvShape>& convolutions, std::shared_ptr<Projection> projection) {
    for (size_t i = 0; i < convolutions.size(); ++i) {
      const std::string number = std::to_string(i + 1);
      convs_.push_back(register_module("conv" + number, conv(convolutions[i])));
      bns_.push_back(register_module("bn" + number, torch::nn::BatchNorm2d(convolutions[i].out)));
    }
    if (projection) projection_ = register_module("downsample", std::move(projection));
  }

  at::Tensor forward(const at::Tensor& inputs) override {
    at::Tensor x = inputs;
    for (size_t i = 0; i < convs_.size(); ++i) {
      x = bns_[i]->forward(convs_[i]->forward(x));
      if (i + 1 < convs_.size())
        x.relu_();  // in place like torchvision: batch norm's backward does not need its output
    }
    x += projection_ ? projection_->forward(inputs) : inputs;
    return x.relu_();
  }

 private:
  std::vector<torch::nn::Conv2d> convs_;
  std::vector<torch::nn::BatchNorm2d> bns_;
  std::shared_ptr<Projection> projection_;
};

std::vector<ConvShape> block_convolutions(bool bottleneck, const BlockShape& s) {
  if (!bottleneck) return {{s.in, s.planes, 3, s.stride}, {s.planes, s.planes, 3, 1}};
  return {{s.in, s.planes, 1, 1}, {s.planes, s.planes, 3, s.stride}, {s.planes, 4 * s.planes, 1, 1}};
}

class Layer : public ResidualModule {
 public:
  Layer(bool bottleneck, BlockShape shape, int depth) {
    const int64_t out = shape.planes * (bottleneck ? 4 : 1);
    for (int i = 0; i < depth; ++i) {
      std::shared_ptr<Projection> projection;
      if (i == 0 && (shape.stride != 1 || shape.in != out)) {
        projection = std::make_shared<Projection>(ConvShape{shape.in, out, 1, shape.stride});
      }
      auto block = std::make_shared<Block>(block_convolutions(bottleneck, shape), std::move(projection));
      blocks_.push_back(register_module(std::to_string(i), std::move(block)));
      shape = {.in = out, .planes = shape.planes, .stride = 1};
    }
  }

  at::Tensor forward(const at::Tensor& inputs) override {
    at::Tensor x = inputs;
    for (const auto& block : blocks_) x = block->forward(x);
    return x;
  }

 private:
  std::vector<std::shared_ptr<Block>> blocks_;
};

}  // namespace

ResNet::ResNet(const ResNetLayout& layout, const NamedArgs& args) {
  conv1_ = register_module("conv1", conv({args.integer("in_channels"), 64, 7, 2}));
  bn1_ = register_module("bn1", torch::nn::BatchNorm2d(64));
  int64_t in = 64;
  for (int i = 0; i < 4; ++i) {
    const int64_t planes = int64_t{64} << i;
    const BlockShape shape{.in = in, .planes = planes, .stride = i == 0 ? 1 : 2};
    auto layer = std::make_shared<Layer>(layout.bottleneck, shape, layout.depths[i]);
    layers_.push_back(register_module("layer" + std::to_string(i + 1), std::move(layer)));
    in = planes * (layout.bottleneck ? 4 : 1);
  }
  fc_ = register_module("fc", torch::nn::Linear(in, args.integer("num_classes")));
  initialise_convolutions();
}

// A second draw for every convolution, in module order, after all default initialisations: what torchvision's
// constructor does. Batch norm's own defaults (weight 1, bias 0) are already those of torchvision.
void ResNet::initialise_convolutions() {
  for (const auto& module : modules(/*include_self=*/false)) {
    if (auto* convolution = module->as<torch::nn::Conv2d>()) {
      torch::nn::init::kaiming_normal_(convolution->weight, 0, torch::kFanOut, torch::kReLU);
    }
  }
}

at::Tensor ResNet::forward(const at::Tensor& inputs) {
  at::Tensor x = bn1_->forward(conv1_->forward(inputs)).relu_();
  x = at::max_pool2d(x, 3, 2, 1);
  for (const auto& layer : layers_) x = layer->forward(x);
  return affine(fc_, at::adaptive_avg_pool2d(x, {1, 1}).flatten(1));
}

}  // namespace gputrain

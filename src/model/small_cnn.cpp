#include "model/small_cnn.h"

#include <ATen/ops/dropout.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/relu.h>

#include "model/layers.h"

namespace gputrain {
namespace {

torch::nn::Conv2d conv3x3(int64_t in, int64_t out) {
  return torch::nn::Conv2d(torch::nn::Conv2dOptions(in, out, 3).padding(1));
}

constexpr int64_t kFeatures = 64 * 7 * 7;  // what two poolings leave of 28 x 28

}  // namespace

// The constructions draw from the random generator: their order is part of the contract.
SmallCnn::SmallCnn(const NamedArgs& args) : dropout_(args.number("dropout")) {
  conv1_ = register_module("conv1", conv3x3(args.integer("in_channels"), 32));
  conv2_ = register_module("conv2", conv3x3(32, 64));
  fc1_ = register_module("fc1", torch::nn::Linear(kFeatures, 128));
  fc2_ = register_module("fc2", torch::nn::Linear(128, args.integer("num_classes")));
}

at::Tensor SmallCnn::forward(const at::Tensor& inputs) {
  at::Tensor x = at::max_pool2d(at::relu(conv1_->forward(inputs)), 2);
  x = at::max_pool2d(at::relu(conv2_->forward(x)), 2);
  x = at::dropout(at::relu(affine(fc1_, x.flatten(1))), dropout_, is_training());
  return affine(fc2_, x);
}

}  // namespace gputrain

#include "model/mlp.h"

#include <ATen/ops/dropout.h>
#include <ATen/ops/relu.h>

#include "model/layers.h"

namespace gputrain {

Mlp::Mlp(const NamedArgs& args) : dropout_(args.number("dropout")) {
  std::vector<int64_t> widths = args.integers("hidden");
  widths.insert(widths.begin(), args.integer("in_features"));
  widths.push_back(args.integer("num_classes"));
  for (size_t i = 1; i < widths.size(); ++i) {
    layers_.push_back(register_module("fc" + std::to_string(i), torch::nn::Linear(widths[i - 1], widths[i])));
  }
}

at::Tensor Mlp::forward(const at::Tensor& inputs) {
  at::Tensor x = inputs.flatten(1);
  for (size_t i = 0; i + 1 < layers_.size(); ++i) {
    x = at::dropout(at::relu(affine(layers_[i], x)), dropout_, is_training());
  }
  return affine(layers_.back(), x);
}

}  // namespace gputrain

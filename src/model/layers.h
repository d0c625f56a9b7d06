#pragma once
#include <ATen/ops/linear.h>
#include <torch/nn/modules/linear.h>

namespace gputrain {

// What Python's nn.Linear computes. LibTorch's LinearImpl::forward multiplies by weight.t() instead: autocast then
// casts that view anew at every use, where it caches the cast of the weight itself.
inline at::Tensor affine(const torch::nn::Linear& layer, const at::Tensor& inputs) {
  return at::linear(inputs, layer->weight, layer->bias);
}

}  // namespace gputrain

#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "model/model.h"

namespace gputrain {

// LibTorch's reason why the model does not take a batch of one sample of zeros, without gradients; "" = it does.
// `shape` is one sample's. Mode and buffers are put back; out of memory passes through.
std::string refusal_of_one_sample(Model& model, const std::vector<int64_t>& shape, const at::TensorOptions& options,
                                  bool training);

// Runs the model once, without gradients and in evaluation mode, on a sample of zeros: what does not fit is an
// Error(kSpec) with both shapes, before training. `shape` is that of one sample of `role` ("data.train") after its
// transforms; the model is in `type` on `device`. Leaves the model as it was.
void check_model_takes(Model& model, const std::vector<int64_t>& shape, const at::TensorOptions& options,
                       const std::string& role);

}  // namespace gputrain

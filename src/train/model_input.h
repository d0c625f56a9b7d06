#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "model/model.h"

namespace gputrain {

// What the model makes of a batch of one sample of zeros, without gradients and in evaluation mode. `options`: of the
// input. Leaves the model as it was. Throws what the model throws.
at::Tensor output_for_one_sample(Model& model, const std::vector<int64_t>& shape, const at::TensorOptions& options);

// LibTorch's reason why the model does not take a batch of one sample of zeros, without gradients; "" = it does.
// `shape` is one sample's. Mode and buffers are put back; out of memory passes through.
std::string refusal_of_one_sample(Model& model, const std::vector<int64_t>& shape, const at::TensorOptions& options,
                                  bool training);

// Runs the model forward and backward once, in training mode, on two samples of zeros: parameters that the output does
// not depend on are an Error(kSpec) that names them, as is a backward pass that fails. Without a gradient an
// optimizer's weight decay would still move them, and gradients could not be averaged over ranks. Of use for models
// that we did not write. Leaves the model as it was, without gradients; says nothing when two samples are too much for
// the memory.
void check_all_trained(Model& model, const std::vector<int64_t>& shape, const at::TensorOptions& options);

// Runs the model once, without gradients and in evaluation mode, on a sample of zeros: what does not fit is an
// Error(kSpec) with both shapes, before training. `shape` is that of one sample of `role` ("data.train") after its
// transforms; the model is in `type` on `device`. Leaves the model as it was.
// Returns what the model made of it.
at::Tensor check_model_takes(Model& model, const std::vector<int64_t>& shape, const at::TensorOptions& options,
                             const std::string& role);

}  // namespace gputrain

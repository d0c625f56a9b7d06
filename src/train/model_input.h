#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "model/model.h"

namespace gputrain {

// Runs the model once, without gradients and in evaluation mode, on a sample of zeros: what does not fit is an
// Error(kSpec) with both shapes, before training. `shape` is that of one sample of `role` ("data.train") after its
// transforms; the model is in `type` on `device`. Leaves the model as it was.
void check_model_takes(Model& model, const std::vector<int64_t>& shape, const at::TensorOptions& options,
                       const std::string& role);

}  // namespace gputrain

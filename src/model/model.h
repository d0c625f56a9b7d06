#pragma once
// Models by catalog name. Parameter names, order of construction (so: initial weights after torch.manual_seed) and
// results equal torchvision's models and the Python twins in tests/parity.
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <torch/nn/module.h>

#include "spec/plan.h"

namespace gputrain {

// A trainable model: an nn::Module with one tensor in, one tensor out (logits).
class Model : public torch::nn::Module {
 public:
  using torch::nn::Module::Module;
  virtual at::Tensor forward(const at::Tensor& inputs) = 0;
};

// Builds `plan.name` with weights drawn from `seed` (at::manual_seed(seed) first), in `type` (kFloat, kDouble), on the
// CPU. Error(kSpec) for an unknown name or argument (the spec has already checked; this is the second line).
std::shared_ptr<Model> make_model(const ModelPlan& plan, uint64_t seed, at::ScalarType type);

// Names that make_model binds: a test compares them with the catalog.
std::vector<std::string> model_names();

// Named parameters (trainable, de-duplicated, in model order) and buffers, with Python's dotted names.
std::vector<std::pair<std::string, at::Tensor>> named_parameters_of(const Model& model);
std::vector<std::pair<std::string, at::Tensor>> named_buffers_of(const Model& model);

}  // namespace gputrain

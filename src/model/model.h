#pragma once
// Models by catalog name. Parameter names, order of construction (so: initial weights after torch.manual_seed) and
// results equal torchvision's and Hugging Face's models and the Python twins in tests/parity.
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

  // What public files of this architecture may leave out in front of names ("transformer." of GPT-2); "" = nothing.
  virtual std::string base_prefix() const { return ""; }
  // Patterns (* and ?) of what such files hold beside the weights, by full names: a causal mask a layer, say.
  virtual std::vector<std::string> surplus_patterns() const { return {}; }
};

// Builds what the plan names: a model of the catalog or of a plug-in with weights drawn from `seed`
// (at::manual_seed(seed) first), or a TorchScript file's with its own. In `type` (kFloat, kDouble), on the CPU, with
// `plan.freeze` applied; not `plan.init`, which is train/first_weights.h's. Error(kSpec) for an unknown name or
// argument (the spec has already checked; this is the second line) and for a model without anything to train; see also
// plugin.h, torchscript.h and freeze.h.
std::shared_ptr<Model> make_model(const ModelPlan& plan, uint64_t seed, at::ScalarType type);

// Names that make_model binds: a test compares them with the catalog.
std::vector<std::string> model_names();

// Named parameters (those that are trained, or the frozen ones too; de-duplicated, in model order) and buffers, with
// Python's dotted names.
std::vector<std::pair<std::string, at::Tensor>> named_parameters_of(const Model& model);
std::vector<std::pair<std::string, at::Tensor>> all_parameters_of(const Model& model);
std::vector<std::pair<std::string, at::Tensor>> named_buffers_of(const Model& model);

}  // namespace gputrain

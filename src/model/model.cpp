#include "model/model.h"

#include <algorithm>
#include <unordered_set>

#include "model/args.h"
#include "model/freeze.h"
#include "model/gpt.h"
#include "model/mlp.h"
#include "model/plugin.h"
#include "model/resnet.h"
#include "model/small_cnn.h"
#include "model/torchscript.h"
#include "model/unet.h"
#include "model/vit.h"
#include "util/error.h"

namespace gputrain {
namespace {

using ModelPointer = std::shared_ptr<Model>;

struct Binding {
  const char* name;
  ModelPointer (*make)(const NamedArgs&);
};

constexpr Binding kBindings[] = {
    {"mlp", [](const NamedArgs& args) -> ModelPointer { return std::make_shared<Mlp>(args); }},
    {"small_cnn", [](const NamedArgs& args) -> ModelPointer { return std::make_shared<SmallCnn>(args); }},
    {"resnet18", [](const NamedArgs& args) -> ModelPointer { return std::make_shared<ResNet>(kResNet18, args); }},
    {"resnet34", [](const NamedArgs& args) -> ModelPointer { return std::make_shared<ResNet>(kResNet34, args); }},
    {"resnet50", [](const NamedArgs& args) -> ModelPointer { return std::make_shared<ResNet>(kResNet50, args); }},
    {"resnet101", [](const NamedArgs& args) -> ModelPointer { return std::make_shared<ResNet>(kResNet101, args); }},
    {"vit_b_16",
     [](const NamedArgs& args) -> ModelPointer { return std::make_shared<VisionTransformer>(kVitB16, args); }},
    {"vit_s_16",
     [](const NamedArgs& args) -> ModelPointer { return std::make_shared<VisionTransformer>(kVitS16, args); }},
    {"gpt", [](const NamedArgs& args) -> ModelPointer { return std::make_shared<Gpt>(args); }},
    {"unet2d", make_unet2d},
    {"unet3d", make_unet3d},
};

// Python's Module.to(dtype): floating-point tensors only. LibTorch's own Module::to would also convert
// num_batches_tracked.
void convert_floating_point(Model& model, at::ScalarType type) {
  const auto convert = [type](at::Tensor tensor) {
    if (tensor.is_floating_point() && tensor.scalar_type() != type) tensor.set_data(tensor.to(type));
  };
  for (const at::Tensor& parameter : model.parameters()) convert(parameter);
  for (const at::Tensor& buffer : model.buffers()) convert(buffer);
}

// A tensor reached by two names counts once, under its first, like in Python. Identity, not storage: distinct
// parameters may be views of one flat storage.
std::vector<std::pair<std::string, at::Tensor>> unique(const torch::OrderedDict<std::string, at::Tensor>& named) {
  std::vector<std::pair<std::string, at::Tensor>> out;
  std::unordered_set<const void*> seen;
  for (const auto& item : named) {
    if (seen.insert(item.value().unsafeGetTensorImpl()).second) out.emplace_back(item.key(), item.value());
  }
  return out;
}

ModelPointer build_named(const ModelPlan& plan) {
  const NamedArgs args(CatalogKind::kModel, plan.name, plan.args);
  for (const Binding& binding : kBindings) {
    if (plan.name == binding.name) return binding.make(args);
  }
  throw Error(ErrorKind::kSpec, "model " + plan.name + " is not built into this program");
}

ModelPointer build(const ModelPlan& plan) {
  if (!plan.plugin.empty()) return load_plugin(plan.plugin, plan.args);
  if (!plan.torchscript.empty()) return load_torchscript(plan.torchscript);
  return build_named(plan);
}

// What a library or a file brings may have no parameters, or none that is trained.
void check_trains(const Model& model, const ModelPlan& plan) {
  const auto parameters = model.parameters();
  if (std::any_of(parameters.begin(), parameters.end(), [](const at::Tensor& p) { return p.requires_grad(); })) return;
  const bool script = !plan.torchscript.empty();
  const std::string& path = script ? plan.torchscript : plan.plugin;
  throw Error(ErrorKind::kSpec,
              path + (parameters.empty() ? " has no parameters" : " has no parameter with requires_grad") +
                  ": nothing to train",
              script ? "model.torchscript" : "model.plugin",
              script ? "save it before torch.jit.freeze or optimize_for_inference, with its parameters trainable"
                     : "register parameters with register_parameter or register_module, and leave requires_grad on");
}

}  // namespace

std::shared_ptr<Model> make_model(const ModelPlan& plan, uint64_t seed, at::ScalarType type) {
  at::manual_seed(seed);
  const ModelPointer model = build(plan);
  convert_floating_point(*model, type);
  freeze_parameters(*model, plan.freeze);
  check_trains(*model, plan);
  return model;
}

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const Binding& binding : kBindings) names.emplace_back(binding.name);
  return names;
}

std::vector<std::pair<std::string, at::Tensor>> all_parameters_of(const Model& model) {
  return unique(model.named_parameters());
}

std::vector<std::pair<std::string, at::Tensor>> named_parameters_of(const Model& model) {
  auto named = all_parameters_of(model);
  std::erase_if(named, [](const auto& item) { return !item.second.requires_grad(); });
  return named;
}

std::vector<std::pair<std::string, at::Tensor>> named_buffers_of(const Model& model) {
  return unique(model.named_buffers());
}

}  // namespace gputrain

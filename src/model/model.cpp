#include "model/model.h"

#include <unordered_set>

#include "model/args.h"
#include "model/mlp.h"
#include "model/resnet.h"
#include "model/small_cnn.h"
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
};

// Python's Module.to(dtype): floating-point tensors only. LibTorch's own Module::to would also convert
// num_batches_tracked.
void convert_floating_point(Model& model, at::ScalarType type) {
  const auto convert = [type](at::Tensor tensor) {
    if (tensor.is_floating_point()) tensor.set_data(tensor.to(type));
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

}  // namespace

std::shared_ptr<Model> make_model(const ModelPlan& plan, uint64_t seed, at::ScalarType type) {
  const NamedArgs args(CatalogKind::kModel, plan.name, plan.args);
  for (const Binding& binding : kBindings) {
    if (plan.name != binding.name) continue;
    at::manual_seed(seed);
    ModelPointer model = binding.make(args);
    if (type != at::kFloat) convert_floating_point(*model, type);
    return model;
  }
  throw Error(ErrorKind::kSpec, "model " + plan.name + " is not built into this program");
}

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const Binding& binding : kBindings) names.emplace_back(binding.name);
  return names;
}

std::vector<std::pair<std::string, at::Tensor>> named_parameters_of(const Model& model) {
  auto named = unique(model.named_parameters());
  std::erase_if(named, [](const auto& item) { return !item.second.requires_grad(); });
  return named;
}

std::vector<std::pair<std::string, at::Tensor>> named_buffers_of(const Model& model) {
  return unique(model.named_buffers());
}

}  // namespace gputrain

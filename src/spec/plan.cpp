#include "spec/plan.h"

#include "spec/catalog/catalog.h"

namespace gputrain {
namespace {

template <class T, size_t N>
std::string_view word(T value, const std::string_view (&words)[N]) {
  const auto i = static_cast<size_t>(value);
  return i < N ? words[i] : std::string_view();
}

void add_arguments(Json* items, const std::string& prefix, const Json& args) {
  for (const auto& [name, value] : args.items()) (*items)[prefix + name] = value;
}

// A data set's own arguments but for its paths: files may move, their content is compared by fingerprint.
void add_source(Json* items, const std::string& prefix, const DataSourcePlan& source) {
  (*items)[prefix + "format"] = source.format;
  const CatalogEntry* format = find_entry(CatalogKind::kFormat, source.format);
  for (const auto& [name, value] : source.args.items()) {
    if (value.is_object()) {
      for (const char* item : {"shape", "dtype"}) (*items)[prefix + name + "." + item] = value.value(item, Json());
      continue;
    }
    bool is_path = false;
    if (format != nullptr) {
      for (const auto& arg : format->args) is_path |= arg.name == name && arg.type == ArgType::kPath;
    }
    if (!is_path) (*items)[prefix + name] = value;
  }
}

}  // namespace

std::string_view to_string(Precision value) {
  return word(value, {"fp64", "fp32", "tf32", "bf16", "fp16"});
}

std::string_view to_string(Backend value) {
  return word(value, {"gloo", "nccl"});
}
std::string_view to_string(Granularity value) {
  return word(value, {"step", "epoch"});
}
std::string_view to_string(Tail value) {
  return word(value, {"use", "drop"});
}

std::string_view to_string(Task value) {
  return word(value, {"classification", "language_model", "segmentation", "regression"});
}

std::optional<int64_t> ModelPlan::classes() const {
  if (name.empty()) return std::nullopt;
  for (const char* argument : {"num_classes", "vocab_size"}) {
    if (args.contains(argument)) return args.at(argument).get<int64_t>();
  }
  return std::nullopt;
}

std::string ModelPlan::title() const {
  if (!name.empty()) return name;
  const std::string& path = torchscript.empty() ? plugin : torchscript;
  return path.substr(path.rfind('/') + 1);
}

Json identity_of(const RunPlan& plan) {
  Json items = Json::object();
  items["seed"] = plan.seed;
  items["task"] = to_string(plan.task);
  // Of a file its name: it may move. Whether the tensors fit is seen when they are restored.
  const auto file_name = [](const std::string& path) {
    return path.empty() ? "none" : path.substr(path.rfind('/') + 1);
  };
  items["model.name"] = plan.model.name.empty() ? "none" : plan.model.name;
  items["model.torchscript"] = file_name(plan.model.torchscript);
  items["model.plugin"] = file_name(plan.model.plugin);
  items["model.freeze"] = plan.model.freeze;
  add_arguments(&items, "model.args.", plan.model.args);
  add_source(&items, "data.train.", plan.data.train);
  items["data.tail"] = to_string(plan.data.tail);
  items["train.global_batch"] = plan.train.global_batch;
  items["train.precision"] = to_string(plan.train.precision);
  return items;
}

}  // namespace gputrain

#include "spec/task_checks.h"

#include <algorithm>

#include "spec/catalog/catalog.h"
#include "util/text.h"

namespace gputrain {
namespace {

ModelOutput output_of(const std::string& task) {
  if (task == "segmentation") return ModelOutput::kMask;
  return task == "language_model" ? ModelOutput::kTokens : ModelOutput::kVector;
}

class TaskChecks {
 public:
  TaskChecks(const Spec& spec, std::vector<Problem>* problems) : spec_(spec), problems_(problems) {
    task_ = text("task");
    if (const auto name = text("model.name"); !name.empty()) entry_ = find_entry(CatalogKind::kModel, name);
  }

  void run() {
    check_one_model();
    check_sizes();
    if (task_.empty()) return;
    check_output();
    check_options();
    check_switches();
    check_mixing();
    check_metric("checkpoint.keep_best");
    check_metric("early_stopping.metric");
  }

 private:
  std::string text(std::string_view key) const {
    const Setting* setting = spec_.find(key);
    return setting != nullptr && setting->value.is_string() ? setting->value.get<std::string>() : "";
  }
  bool has_number(std::string_view key) const {
    const Setting* setting = spec_.find(key);
    return setting != nullptr && setting->value.is_number();
  }
  bool differs(const std::string& key, const Json& fallback) const {
    const Setting* setting = spec_.find(key);
    return setting != nullptr && setting->value != fallback;
  }
  void report(const std::string& key, std::string message, std::string hint = "") {
    problems_->push_back({{}, key, std::move(message), std::move(hint)});
  }

  void check_one_model() {
    std::vector<std::string> given;
    for (const char* key : {"model.name", "model.torchscript", "model.plugin"}) {
      const std::string value = text(key);
      if (value.empty()) return;  // wrong, which has been reported
      if (value != "none") given.emplace_back(key);
    }
    if (given.empty()) {
      report("model.name", "missing: expected one of " + join(names_of(CatalogKind::kModel), ", ") +
                               "; or give model.torchscript or model.plugin");
    }
    if (given.size() > 1) report(given[1], "only one of " + join_words(given) + " can be the model");
    const bool args = std::ranges::any_of(
        spec_.settings(), [](const Setting& setting) { return setting.key.starts_with("model.args."); });
    if (given.size() == 1 && given[0] == "model.torchscript" && args)
      report("model.args", "a TorchScript file has its arguments in it", "leave model.args out");
  }

  // Of gpt: what its size leaves open. (What a named size fixes the runtime knows.)
  void check_sizes() {
    const Setting* size = catalog_argument(spec_, "size");
    if (size == nullptr || size->value != "custom") return;
    for (const std::string word : {"layers", "heads", "width"}) {
      if (!has_number("model.args." + word))
        report("model.args." + word, "missing: size custom leaves it to you", "or choose a size by name");
    }
    if (!has_number("model.args.width") || !has_number("model.args.heads")) return;
    const auto width = spec_.at("model.args.width").get<int64_t>(), heads = spec_.at("model.args.heads").get<int64_t>();
    if (width % heads != 0) report("model.args.width", "is not divisible by heads (" + std::to_string(heads) + ")");
  }

  void check_output() {
    if (entry_ == nullptr) return;
    const ModelOutput wanted = output_of(task_);
    if (entry_->output == wanted) return;
    std::vector<std::string> right;
    for (const auto& entry : catalog()) {
      if (entry.kind == CatalogKind::kModel && entry.output == wanted) right.push_back(entry.name);
    }
    report("task", task_ + " is not what " + entry_->name + " makes",
           "models for it: " + join(right, ", ") + "; or change task");
  }

  // Options that would change nothing are mistakes; their defaults are none.
  void check_options() {
    const bool text_task = task_ == "language_model", masks = task_ == "segmentation",
               classes = task_ == "classification";
    const auto only_for = [&](const std::string& key, bool used, bool fits, const std::string& where) {
      if (used && !fits) report(key, "has no meaning for " + task_ + ", only for " + where, "leave it out");
    };
    only_for("loss.label_smoothing", differs("loss.label_smoothing", 0), classes || text_task,
             "classification and language_model");
    only_for("loss.ignore_index", has_number("loss.ignore_index"), text_task || masks,
             "language_model and segmentation");
    only_for("loss.dice_weight", has_number("loss.dice_weight"), masks, "segmentation");
    only_for("loss.distance", differs("loss.distance", "default"), task_ == "regression", "regression");
    only_for("evaluate.top_k", has_number("evaluate.top_k"), classes, "classification");
    const Setting *top_k = spec_.find("evaluate.top_k"), *count = catalog_argument(spec_, "num_classes");
    if (classes && has_number("evaluate.top_k") && count != nullptr && top_k->value >= count->value) {
      report("evaluate.top_k", "the label is always among the " + top_k->value.dump() + " largest of " +
                                   count->value.dump() + " classes");
    }
  }

  // What a switch that is off makes idle.
  void check_switches() {
    const auto idle = [&](const std::string& key, bool used, const std::string& without) {
      if (used) report(key, "has no effect without " + without, "leave it out, or give " + without);
    };
    if (!differs("model.init", "none")) {
      idle("model.init_ignore", differs("model.init_ignore", Json::array()), "model.init");
      idle("model.init_strict", differs("model.init_strict", true), "model.init");
    }
    if (!differs("early_stopping.metric", "none")) {
      idle("early_stopping.patience", differs("early_stopping.patience", 5), "early_stopping.metric");
      idle("early_stopping.min_delta", differs("early_stopping.min_delta", 0), "early_stopping.metric");
    }
    const Setting* val = spec_.find("data.val");
    idle("evaluate.top_k", has_number("evaluate.top_k") && val != nullptr && val->value.is_null(), "data.val");
  }

  void check_mixing() {
    for (const std::string key : {"data.mixup", "data.cutmix"}) {
      if (has_number(key) && task_ != "classification")
        report(key, "mixes class labels: it has no meaning for " + task_, "leave it out");
    }
  }

  void check_metric(const std::string& key) {
    const std::string name = text(key);
    const CatalogEntry* metric = find_entry(CatalogKind::kMetric, name);
    if (metric == nullptr) return;
    if (std::ranges::find(metric->tasks, task_) == metric->tasks.end()) {
      std::vector<std::string> right;
      for (const auto& entry : catalog()) {
        if (entry.kind == CatalogKind::kMetric && std::ranges::find(entry.tasks, task_) != entry.tasks.end())
          right.push_back(entry.name);
      }
      report(key, name + " is not a metric of " + task_, "its metrics are " + join_words(right));
    } else if (name == "top_k_accuracy" && !has_number("evaluate.top_k")) {
      report(key, "top_k_accuracy needs evaluate.top_k", "as in evaluate: {top_k: 5}");
    }
  }

  const Spec& spec_;
  std::vector<Problem>* problems_;
  std::string task_;
  const CatalogEntry* entry_ = nullptr;
};

}  // namespace

void check_task(const Spec& spec, std::vector<Problem>* problems) {
  TaskChecks(spec, problems).run();
}

}  // namespace gputrain

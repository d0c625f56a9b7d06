#include "spec/source_checks.h"

#include <optional>

#include "spec/catalog/catalog.h"
#include "util/text.h"

namespace gputrain {
namespace {

using Dims = std::vector<int64_t>;

// Where one of these is given, the data are for this task.
struct Purpose {
  const char* word;
  const char* task;
};
constexpr Purpose kFormats[] = {{"idx", "classification"}, {"tokens", "language_model"}};
constexpr Purpose kSyntheticTargets[] = {
    {"class", "classification"}, {"tokens", "language_model"}, {"mask", "segmentation"}, {"values", "regression"}};

class SourceChecks {
 public:
  SourceChecks(const Spec& spec, std::string key, std::vector<Problem>* problems)
      : spec_(spec), key_(std::move(key)), problems_(problems) {
    if (const Setting* task = spec.find("task")) task_ = task->value.get<std::string>();
  }

  void run(const Json& source) {
    const auto format = source["format"].get<std::string>();
    if (format == "raw") check_raw(source["inputs"], source["targets"]);
    if (format == "synthetic") check_synthetic(source);
    if (format == "tokens") check_length("context", source["context"].get<int64_t>());
    if (task_.empty()) return;
    for (const auto& [word, task] : kFormats) {
      if (format == word && task_ != task)
        report("format", format + " is for " + task + ", but task is " + task_, "change one of both");
    }
  }

 private:
  void report(const std::string& part, std::string message, std::string hint = "") {
    problems_->push_back({{}, key_ + "." + part, std::move(message), std::move(hint)});
  }
  std::optional<int64_t> model_number(const std::string& argument) const {
    const Setting* setting = catalog_argument(spec_, argument);
    if (setting == nullptr || !setting->value.is_number_integer()) return std::nullopt;
    return setting->value.get<int64_t>();
  }
  std::optional<int64_t> model_classes() const {
    const auto classes = model_number("num_classes");
    return classes ? classes : model_number("vocab_size");
  }

  void check_length(const std::string& part, int64_t length) {
    const auto context = model_number("context");
    if (!context || length <= *context) return;
    report(part,
           "the model takes at most " + plural(*context, "token") + " (model.args.context), a sample has " +
               std::to_string(length),
           "make windows shorter, or the model's context longer");
  }

  void check_array(const std::string& part, const Json& array) {
    const auto dims = array["shape"].get<Dims>();
    if (!element_count(dims)) report(part + ".shape", "a sample of " + dims_text(dims) + " is too large");
  }

  // `what`: "class labels", ...
  void need(const std::string& part, const Json& array, const std::string& what, const Dims& dims) {
    if (array["shape"] != Json(dims)) {
      report(part + ".shape", what + " have the shape " + dims_text(dims) + ", got " + dims_text(array["shape"]));
    }
    need_integers(part, array, what);
  }
  void need_integers(const std::string& part, const Json& array, const std::string& what) {
    const auto dtype = array["dtype"].get<std::string>();
    if (!is_integer_dtype(dtype)) report(part + ".dtype", what + " are integers, got " + dtype);
  }

  void check_raw(const Json& inputs, const Json& targets) {
    check_array("inputs", inputs);
    check_array("targets", targets);
    const auto dims = inputs["shape"].get<Dims>();
    if (dims.empty()) {
      report("inputs.shape", "expected at least one dimension, got []");
    }
    if (task_ == "classification") need("targets", targets, "class labels", {});
    if (task_ == "segmentation") check_masks(dims, targets);
    if (task_ == "language_model") check_tokens(inputs, targets);
    if (task_ == "regression") check_values("targets.shape", element_count(targets["shape"].get<Dims>()));
  }

  void check_masks(const Dims& image, const Json& targets) {
    if (need_pixels("inputs.shape", image))
      need("targets", targets, "masks of images of " + dims_text(image), {image.begin() + 1, image.end()});
  }

  bool need_pixels(const std::string& part, const Dims& dims) {
    if (dims.size() == 3 || dims.size() == 4) return true;
    if (dims.empty()) return false;  // has been reported
    report(part,
           "segmentation takes images [channels, height, width] or [channels, depth, height, width], but a sample is " +
               dims_text(dims));
    return false;
  }

  void check_tokens(const Json& inputs, const Json& targets) {
    const auto dims = inputs["shape"].get<Dims>();
    need_integers("inputs", inputs, "tokens");
    if (need_length("inputs.shape", dims)) need("targets", targets, "the next tokens of " + dims_text(dims), dims);
  }

  bool need_length(const std::string& part, const Dims& dims) {
    if (dims.size() == 1) {
      check_length(part, dims[0]);
    } else if (!dims.empty()) {
      report(part, "language_model takes tokens [length], but a sample is " + dims_text(dims));
    }
    return dims.size() == 1;
  }

  void check_values(const std::string& part, std::optional<int64_t> values) {
    const auto outputs = model_number("num_classes");
    if (!outputs || !values || *values == *outputs) return;
    report(part, "the model has " + plural(*outputs, "output") + ", a target has " + plural(*values, "value"),
           "set model.args.num_classes to the values of a target");
  }

  void check_synthetic(const Json& source) {
    const auto targets = source.value("targets", std::string("class"));
    const auto dims = source["shape"].get<Dims>();
    const auto classes = source["num_classes"].get<int64_t>();
    for (const auto& [word, task] : kSyntheticTargets) {
      if (targets != word || task_.empty() || task_ == task) continue;
      report("targets", targets + " is for " + task + ", but task is " + task_, "change one of both");
    }
    if (targets == "mask") need_pixels("shape", dims);
    if (targets == "tokens") need_length("shape", dims);
    if (targets == "values") return check_values("num_classes", classes);
    const auto outputs = model_classes();
    if (outputs && classes > *outputs)
      report("num_classes", "the model has only " + std::to_string(*outputs) + " outputs");
  }

  const Spec& spec_;
  std::string key_;
  std::string task_;  // "" = could not be read
  std::vector<Problem>* problems_;
};

}  // namespace

std::string dims_text(const std::vector<int64_t>& dims) {
  std::vector<std::string> words;
  words.reserve(dims.size());
  for (int64_t dim : dims) words.push_back(std::to_string(dim));
  return "[" + join(words, ", ") + "]";
}

void check_source(const Spec& spec, const std::string& key, const Json& source, std::vector<Problem>* problems) {
  SourceChecks(spec, key, problems).run(source);
}

}  // namespace gputrain

#include "spec/data_checks.h"

#include <algorithm>

#include "spec/catalog/catalog.h"
#include "util/text.h"

namespace gputrain {
namespace {

using Problems = std::vector<Problem>;

const Json* find_source(const Spec& spec, const std::string& role) {
  const Setting* setting = spec.find("data." + role);
  return setting == nullptr || setting->value.is_null() ? nullptr : &setting->value;
}

std::string dims_text(const std::vector<int64_t>& dims) {
  std::vector<std::string> words;
  words.reserve(dims.size());
  for (int64_t dim : dims) words.push_back(std::to_string(dim));
  return "[" + join(words, ", ") + "]";
}

SampleShape raw_shape(const Json& source) {
  SampleShape shape;
  if (source["format"] == "idx") shape.channels = 1;
  if (source["format"] == "raw") shape.dims = source["inputs"]["shape"].get<std::vector<int64_t>>();
  if (source["format"] == "synthetic") shape.dims = source["shape"].get<std::vector<int64_t>>();
  if (shape.dims && shape.dims->size() == 3) shape.channels = shape.dims->at(0);
  return shape;
}

void check_array(const std::string& key, const Json& array, Problems* problems) {
  const auto dims = array["shape"].get<std::vector<int64_t>>();
  if (!element_count(dims))
    problems->push_back({{}, key + ".shape", "a sample of " + dims_text(dims) + " is too large", ""});
}

void check_raw(const std::string& key, const Json& source, Problems* problems) {
  const Json &inputs = source["inputs"], &targets = source["targets"];
  check_array(key + ".inputs", inputs, problems);
  if (inputs["shape"].empty())
    problems->push_back({{}, key + ".inputs.shape", "expected at least one dimension, got []", ""});
  if (!targets["shape"].empty()) {
    problems->push_back(
        {{}, key + ".targets.shape", "class labels have the shape [], got " + dims_text(targets["shape"]), ""});
  }
  if (!is_integer_dtype(targets["dtype"].get<std::string>())) {
    problems->push_back(
        {{}, key + ".targets.dtype", "class labels are integers, got " + targets["dtype"].get<std::string>(), ""});
  }
}

// The sample while it passes the transforms one by one. The runtime refuses the same lists, but only after the ranks
// have started.
class Walk {
 public:
  Walk(const Json& source, Problems* problems)
      : shape_(raw_shape(source)), type_(type_of(source)), problems_(problems) {}

  void apply(const std::string& key, const Json& transform) {
    const auto name = transform["name"].get<std::string>();
    const Json& args = transform["args"];
    if (name == "random_horizontal_flip") need_image(key, name);
    if (name == "random_crop") crop(key, args);
    if (name == "to_tensor") to_tensor(key);
    if (name == "normalize") normalize(key + ".normalize", args);
  }

  const SampleShape& shape() const { return shape_; }
  bool is_pixels() const { return type_ == "uint8"; }

 private:
  static std::string type_of(const Json& source) {
    if (source["format"] == "raw") return source["inputs"]["dtype"].get<std::string>();
    return source["format"] == "idx" ? "uint8" : "float32";
  }

  void report(const std::string& key, std::string message, std::string hint = "") {
    problems_->push_back({{}, key, std::move(message), std::move(hint)});
  }

  void need_image(const std::string& key, const std::string& name) {
    if (!shape_.dims || shape_.dims->size() == 3) return;
    report(key, name + " needs images [channels, height, width], but a sample is " + dims_text(*shape_.dims));
  }

  void to_tensor(const std::string& key) {
    if (type_ != "uint8")
      report(key, "to_tensor turns 8-bit pixels into floats, but a sample is " + type_ + " here", "leave it out");
    type_ = "float32";
  }

  void crop(const std::string& key, const Json& args) {
    const int64_t size = args["size"], padding = args["padding"];
    need_image(key, "random_crop");
    if (normalized_)
      report(key, "random_crop after normalize would pad with grey instead of black", "put it before normalize");
    if (!shape_.dims || shape_.dims->size() != 3) return;
    auto& dims = *shape_.dims;
    if (std::min(dims[1], dims[2]) + 2 * padding < size) {
      report(key + ".random_crop.size", "a crop of " + std::to_string(size) + " does not fit into " + dims_text(dims) +
                                            " with padding " + std::to_string(padding));
    }
    dims[1] = dims[2] = size;
  }

  void normalize(const std::string& key, const Json& args) {
    if (type_ == "uint8") report(key, "normalize needs floats, not 8-bit pixels", "put to_tensor before it");
    normalized_ = true;
    const auto means = static_cast<int64_t>(args["mean"].size()), deviations = static_cast<int64_t>(args["std"].size());
    if (means != deviations && means != 1 && deviations != 1) {
      report(key, "mean has " + plural(means, "number") + ", std has " + std::to_string(deviations));
      return;
    }
    const int64_t given = std::max(means, deviations);
    if (shape_.channels && given != 1 && given != *shape_.channels) {
      report(key,
             "mean and std have " + plural(given, "number") + ", a sample has " + plural(*shape_.channels, "channel"),
             "give one for each channel, or one for all");
    }
  }

  SampleShape shape_;
  std::string type_;
  bool normalized_ = false;
  Problems* problems_;
};

SampleShape walk(const Spec& spec, const std::string& role, Problems* problems) {
  const Json* source = find_source(spec, role);
  const std::string key = "data.transforms." + role;
  if (source == nullptr || spec.find(key) == nullptr) return {};
  const Json& transforms = spec.at(key);
  Walk walk(*source, problems);
  for (size_t i = 0; i < transforms.size(); ++i) walk.apply(key + "[" + std::to_string(i) + "]", transforms[i]);
  if (walk.is_pixels()) {
    problems->push_back(
        {{}, key, "the samples are 8-bit pixels and the model takes floats: to_tensor is missing", "add to_tensor"});
  }
  return walk.shape();
}

void check_model_takes(const Spec& spec, const std::string& role, const SampleShape& shape, Problems* problems) {
  const Setting* channels = spec.find("model.args.in_channels");
  if (channels != nullptr && shape.channels && channels->value != *shape.channels) {
    problems->push_back({{},
                         "model.args.in_channels",
                         std::to_string(channels->value.get<int64_t>()) + ", but data." + role + " has " +
                             plural(*shape.channels, "channel"),
                         ""});
  }
  const Setting* features = spec.find("model.args.in_features");
  const auto count = shape.dims ? element_count(*shape.dims) : std::nullopt;
  if (features != nullptr && count && features->value != *count) {
    problems->push_back({{},
                         "model.args.in_features",
                         std::to_string(features->value.get<int64_t>()) + ", but a sample of data." + role + " has " +
                             plural(*count, "element"),
                         ""});
  }
  const Setting* name = spec.find("model.name");
  const bool fixed_size = name != nullptr && name->value == "small_cnn";
  if (fixed_size && shape.dims && (shape.dims->size() != 3 || shape.dims->at(1) != 28 || shape.dims->at(2) != 28)) {
    problems->push_back({{},
                         "model.name",
                         "small_cnn takes 28x28 images, but a sample of data." + role + " is " + dims_text(*shape.dims),
                         ""});
  }
}

}  // namespace

SampleShape sample_shape(const Spec& spec, const std::string& role) {
  Problems ignored;
  return walk(spec, role, &ignored);
}

void check_data(const Spec& spec, Problems* problems) {
  for (const std::string role : {"train", "val"}) {
    const Json* source = find_source(spec, role);
    if (source == nullptr) continue;
    const std::string key = "data." + role;
    if ((*source)["format"] == "raw") check_raw(key, *source, problems);
    const Setting* classes = spec.find("model.args.num_classes");
    if ((*source)["format"] == "synthetic" && classes != nullptr && (*source)["num_classes"] > classes->value) {
      problems->push_back({{},
                           key + ".num_classes",
                           "the model has only " + std::to_string(classes->value.get<int64_t>()) + " outputs",
                           ""});
    }
    check_model_takes(spec, role, walk(spec, role, problems), problems);
  }
}

}  // namespace gputrain

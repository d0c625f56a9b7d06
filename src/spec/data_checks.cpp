#include "spec/data_checks.h"

#include <algorithm>

#include "spec/catalog/catalog.h"
#include "spec/source_checks.h"
#include "util/text.h"

namespace gputrain {
namespace {

using Problems = std::vector<Problem>;

const Json* find_source(const Spec& spec, const std::string& role) {
  const Setting* setting = spec.find("data." + role);
  return setting == nullptr || setting->value.is_null() ? nullptr : &setting->value;
}

SampleShape raw_shape(const Json& source) {
  SampleShape shape;
  if (source["format"] == "idx") shape.channels = 1;
  if (source["format"] == "raw") shape.dims = source["inputs"]["shape"].get<std::vector<int64_t>>();
  if (source["format"] == "tokens") shape.dims = {source["context"].get<int64_t>()};
  if (source["format"] == "synthetic") shape.dims = source["shape"].get<std::vector<int64_t>>();
  if (shape.dims && shape.dims->size() >= 3) shape.channels = shape.dims->at(0);
  return shape;
}

// Element type of a sample: tokens are widened, whatever the file holds.
std::string raw_type(const Json& source, bool language_model) {
  if (source["format"] == "idx") return "uint8";
  if (source["format"] == "tokens") return "int64";
  if (source["format"] == "synthetic") return source.value("targets", "") == "tokens" ? "int64" : "float32";
  const auto dtype = source["inputs"]["dtype"].get<std::string>();
  return language_model && is_integer_dtype(dtype) ? "int64" : dtype;
}

// The sample while it passes the transforms one by one. The runtime refuses the same lists, but only after the ranks
// have started.
class Walk {
 public:
  Walk(const Json& source, bool language_model, Problems* problems)
      : shape_(raw_shape(source)), type_(raw_type(source, language_model)), problems_(problems) {}

  void apply(const std::string& key, const Json& transform) {
    const auto name = transform["name"].get<std::string>();
    const Json& args = transform["args"];
    if (name == "random_horizontal_flip") need_image(key, name);
    if (name == "random_crop") crop(key, args);
    if (name == "to_tensor") to_tensor(key);
    if (name == "normalize") normalize(key + ".normalize", args);
  }

  const SampleShape& shape() const { return shape_; }
  const std::string& type() const { return type_; }

 private:
  void report(const std::string& key, std::string message, std::string hint = "") {
    problems_->push_back({{}, key, std::move(message), std::move(hint)});
  }

  void need_image(const std::string& key, const std::string& name) {
    if (is_integer_dtype(type_) && type_ != "uint8") {
      report(key, name + " is for 8-bit pixels and floats, but a sample is " + type_ + " here", "leave it out");
      return;
    }
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
    need_image(key, "normalize");
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
  const Setting *task = spec.find("task"), *model = spec.find("model.name");
  const bool language_model = task != nullptr && task->value == "language_model";
  Walk walk(*source, language_model, problems);
  for (size_t i = 0; i < transforms.size(); ++i) walk.apply(key + "[" + std::to_string(i) + "]", transforms[i]);
  const bool ours = model != nullptr && find_entry(CatalogKind::kModel, model->value.get<std::string>()) != nullptr;
  if (walk.type() == "uint8") {
    problems->push_back(
        {{}, key, "the samples are 8-bit pixels and the model takes floats: to_tensor is missing", "add to_tensor"});
  } else if (is_integer_dtype(walk.type()) && ours && !language_model) {
    problems->push_back({{},
                         "data." + role,
                         "the samples are " + walk.type() + " and the model takes floats",
                         "store them as floats, or as uint8 with to_tensor"});
  }
  return walk.shape();
}

// A U-Net halves the image's sizes and doubles them again.
void check_halving(const Spec& spec, const std::string& role, const std::vector<int64_t>& dims, Problems* problems) {
  const Setting *levels = catalog_argument(spec, "levels"), *name = spec.find("model.name");
  if (levels == nullptr || name == nullptr) return;
  const auto model = name->value.get<std::string>();
  const CatalogEntry* entry = find_entry(CatalogKind::kModel, model);
  if (entry == nullptr) return;
  if (dims.size() != entry->sample_shape.size()) {
    const std::string wanted = entry->sample_shape.size() == 4 ? "volumes [channels, depth, height, width]"
                                                               : "images [channels, height, width]";
    problems->push_back({{},
                         "model.name",
                         model + " takes " + wanted + ", but a sample of data." + role + " is " + dims_text(dims),
                         ""});
    return;
  }
  const int64_t multiple = int64_t{1} << levels->value.get<int64_t>();
  if (std::all_of(dims.begin() + 1, dims.end(), [&](int64_t size) { return size % multiple == 0; })) return;
  problems->push_back({{},
                       "model.args.levels",
                       levels->value.dump() + " levels need sizes that are multiples of " + std::to_string(multiple) +
                           ", but a sample of data." + role + " is " + dims_text(dims),
                       "use fewer levels, or images of another size"});
}

void check_model_takes(const Spec& spec, const std::string& role, const SampleShape& shape, Problems* problems) {
  const Setting* channels = catalog_argument(spec, "in_channels");
  if (channels != nullptr && shape.channels && channels->value != *shape.channels) {
    problems->push_back({{},
                         "model.args.in_channels",
                         std::to_string(channels->value.get<int64_t>()) + ", but data." + role + " has " +
                             plural(*shape.channels, "channel"),
                         ""});
  }
  if (shape.dims) check_halving(spec, role, *shape.dims, problems);
  const Setting* features = catalog_argument(spec, "in_features");
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

namespace {

void check_cutmix(const Spec& spec, const SampleShape& shape, Problems* problems) {
  const Setting* cutmix = spec.find("data.cutmix");
  if (cutmix == nullptr || !cutmix->value.is_number() || !shape.dims || shape.dims->size() >= 3) return;
  problems->push_back({{},
                       "data.cutmix",
                       "needs images [channels, height, width], but a sample is " + dims_text(*shape.dims),
                       "data.mixup mixes any samples"});
}

}  // namespace

void check_data(const Spec& spec, Problems* problems) {
  for (const std::string role : {"train", "val"}) {
    const Json* source = find_source(spec, role);
    if (source == nullptr) continue;
    check_source(spec, "data." + role, *source, problems);
    const SampleShape shape = walk(spec, role, problems);
    check_model_takes(spec, role, shape, problems);
    if (role == "train") check_cutmix(spec, shape, problems);
  }
}

}  // namespace gputrain

#include "data/transforms.h"

#include <algorithm>
#include <array>
#include <functional>

#include "data/args.h"
#include "util/error.h"
#include "util/text.h"

namespace gputrain {
namespace {

class RandomHorizontalFlip : public ViewTransform {
 public:
  explicit RandomHorizontalFlip(double p) : p_(p) {}
  void apply(ImageView& view, SplitMix& random) const override {
    if (random.uniform() < p_) view.x.flip();
  }
  void apply_without_augmentation(ImageView&) const override {}

 private:
  double p_;
};

// Pads every side with zeros, then cuts out size x size anywhere.
class RandomCrop : public ViewTransform {
 public:
  RandomCrop(int64_t size, int64_t padding) : size_(size), padding_(padding) {}
  void apply(ImageView& view, SplitMix& random) const override {
    view.y.crop(static_cast<int64_t>(random.below(room(view.y) + 1)) - padding_, size_);
    view.x.crop(static_cast<int64_t>(random.below(room(view.x) + 1)) - padding_, size_);
  }
  void apply_without_augmentation(ImageView& view) const override {
    view.y.crop(room(view.y) / 2 - padding_, size_);
    view.x.crop(room(view.x) / 2 - padding_, size_);
  }

 private:
  int64_t room(const AxisView& axis) const { return axis.size + 2 * padding_ - size_; }
  int64_t size_;
  int64_t padding_;
};

// What is known of the sample after the transforms so far.
struct Building {
  PipelineParts parts;
  SampleSpec now;
  uint64_t place = 0;
};

bool is_float(at::ScalarType type) {
  return at::isFloatingType(type);
}

[[noreturn]] void refuse(const std::string& message, const std::string& hint = "") {
  throw Error(ErrorKind::kSpec, message, "", hint);
}

void need_image(const Building& building, const char* name) {
  const auto& [shape, type] = building.now;
  if (shape.size() == 3 && (type == at::kByte || is_float(type))) return;
  refuse(std::string(name) + " needs images [channels, height, width] of uint8 or floats, not " +
         describe(building.now));
}

void add_flip(Building& building, const ArgReader& args) {
  need_image(building, "random_horizontal_flip");
  const double p = args.number("p", 0.5);
  if (!(p >= 0 && p <= 1)) refuse("random_horizontal_flip: p is a probability in [0, 1], not " + format_number(p));
  building.parts.views.emplace_back(building.place, std::make_unique<RandomHorizontalFlip>(p));
}

void add_crop(Building& building, const ArgReader& args) {
  need_image(building, "random_crop");
  if (!building.parts.affines.empty()) {
    refuse("random_crop after normalize would pad with a grey instead of black", "put random_crop before normalize");
  }
  const int64_t size = args.integer("size"), padding = args.integer("padding", 0);
  if (size < 1 || padding < 0) refuse("random_crop: size is at least 1 and padding at least 0");
  auto& shape = building.now.shape;
  if (std::min(shape[1], shape[2]) + 2 * padding < size) {
    refuse("random_crop: size " + std::to_string(size) + " is larger than the image " + describe(building.now) +
               " with padding " + std::to_string(padding),
           "use a smaller size or more padding");
  }
  building.parts.views.emplace_back(building.place, std::make_unique<RandomCrop>(size, padding));
  shape[1] = shape[2] = size;
}

void add_to_tensor(Building& building, const ArgReader&) {
  if (building.now.type != at::kByte) {
    refuse("to_tensor turns uint8 images into floats, but here the samples are " + describe(building.now),
           "leave it out");
  }
  building.now.type = building.parts.options.float_type;
}

void add_normalize(Building& building, const ArgReader& args) {
  if (building.now.type == at::kByte) refuse("normalize needs floats, not uint8 images", "put to_tensor before it");
  need_image(building, "normalize");
  const auto channels = static_cast<size_t>(building.now.shape[0]);
  Affine affine{args.numbers("mean"), args.numbers("std")};
  for (auto* values : {&affine.mean, &affine.std}) {
    if (values->size() == 1) values->resize(channels, values->front());
    if (values->size() == channels) continue;
    refuse("normalize has " + plural(static_cast<int64_t>(values->size()), "value") + " for " +
               plural(static_cast<int64_t>(channels), "channel"),
           "give mean and std one value for each channel, or one for all");
  }
  for (double std : affine.std) {
    if (building.now.type == at::kDouble ? std == 0 : static_cast<float>(std) == 0)
      refuse("normalize: a std of " + format_number(std) + " divides by zero");
  }
  building.parts.affines.push_back(std::move(affine));
}

struct Entry {
  const char* name;
  std::vector<std::string> args;
  void (*add)(Building&, const ArgReader&);
};

const std::array<Entry, 4>& entries() {
  static const std::array<Entry, 4> all{{{"random_horizontal_flip", {"p"}, add_flip},
                                         {"random_crop", {"size", "padding"}, add_crop},
                                         {"to_tensor", {}, add_to_tensor},
                                         {"normalize", {"mean", "std"}, add_normalize}}};
  return all;
}

const Entry& find(const std::string& name) {
  for (const Entry& entry : entries()) {
    if (name == entry.name) return entry;
  }
  const auto names = transform_names();
  const std::string near = nearest(name, names);
  refuse("unknown transform '" + printable(name) + "'",
         near.empty() ? "the transforms are " + join_words(names) : "did you mean " + near + "?");
}

}  // namespace

std::vector<std::string> transform_names() {
  std::vector<std::string> names;
  for (const Entry& entry : entries()) names.emplace_back(entry.name);
  return names;
}

std::unique_ptr<Pipeline> make_pipeline(const std::vector<Named>& transforms, const SampleSpec& input,
                                        const TransformOptions& options) {
  Building building;
  building.parts.input = building.now = input;
  building.parts.options = options;
  for (const Named& transform : transforms) {
    const Entry& entry = find(transform.name);
    entry.add(building, ArgReader(transform.args, entry.name, entry.args));
    ++building.place;
  }
  if (building.now.type == at::kByte) {
    refuse("the samples are " + describe(input) + ", and a model needs floats", "add to_tensor to the transforms");
  }
  if (is_float(building.now.type)) building.now.type = options.float_type;
  building.parts.output = building.now;
  return std::make_unique<Pipeline>(std::move(building.parts));
}

}  // namespace gputrain

#include <array>
#include <cstring>
#include <functional>
#include <utility>

#include "data/args.h"
#include "data/pipeline.h"
#include "data/sources.h"
#include "util/error.h"
#include "util/random.h"
#include "util/text.h"

namespace gputrain {
namespace {

// What the argument `targets` says.
struct Kind {
  const char* name;
  Task task;
};
constexpr std::array<Kind, 4> kKinds{{{"class", Task::kClassification},
                                      {"tokens", Task::kLanguageModel},
                                      {"mask", Task::kSegmentation},
                                      {"values", Task::kRegression}}};

const Kind& kind_of(const std::string& name, const std::string& role) {
  for (const Kind& kind : kKinds) {
    if (name == kind.name) return kind;
  }
  throw Error(ErrorKind::kSpec, role + ".targets '" + printable(name) + "' is unknown", "",
              "targets are class, tokens, mask or values");
}

void fill(SplitMix& random, std::span<float> values) {
  for (float& value : values) value = static_cast<float>(static_cast<int64_t>(random.next()) >> 40) * 0x1p-23f;
}

class SyntheticSource : public Source {
 public:
  SyntheticSource(int64_t samples, std::vector<int64_t> shape, int64_t num_classes, Kind kind)
      : samples_(samples), inputs_{std::move(shape), at::kFloat}, num_classes_(num_classes), kind_(kind) {
    const auto& dims = inputs_.shape;
    if (kind_.task == Task::kLanguageModel) inputs_.type = at::kLong, targets_.shape = dims;
    if (kind_.task == Task::kSegmentation) targets_.shape.assign(dims.begin() + 1, dims.end());
    if (kind_.task == Task::kRegression) targets_ = {{num_classes}, at::kFloat};
  }

  int64_t size() const override { return samples_; }
  std::vector<int64_t> sample_shape() const override { return inputs_.shape; }
  at::ScalarType sample_type() const override { return inputs_.type; }
  at::ScalarType target_type() const override { return targets_.type; }
  std::vector<int64_t> target_shape() const override { return targets_.shape; }
  std::optional<int64_t> mask_padding() const override {
    return kind_.task == Task::kSegmentation ? std::optional<int64_t>(0) : std::nullopt;
  }

  void read(int64_t id, void* sample, void* target) const override {
    GP_CHECK(id >= 0 && id < samples_, "sample " + std::to_string(id));
    SplitMix random(derive_seed(RandomDomain::kSynthetic, 0, static_cast<uint64_t>(id), 0));
    const auto count = static_cast<size_t>(targets_.elements());
    if (kind_.task == Task::kRegression) {
      fill(random, {static_cast<float*>(target), count});
    } else {
      fill_classes(random, {static_cast<int64_t*>(target), count});
    }
    if (kind_.task == Task::kLanguageModel) {
      auto* tokens = static_cast<int64_t*>(sample);
      tokens[0] = draw(random);
      std::memcpy(tokens + 1, target, (count - 1) * sizeof(int64_t));
    } else {
      fill(random, {static_cast<float*>(sample), static_cast<size_t>(inputs_.elements())});
    }
  }

  Json fingerprint() const override {
    Json json = {{"format", "synthetic"},
                 {"samples", samples_},
                 {"shape", inputs_.shape},
                 {"dtype", inputs_.type == at::kLong ? "int64" : "float32"},
                 {"num_classes", num_classes_}};
    if (kind_.task != Task::kClassification) json["targets"] = kind_.name;
    return json;
  }

 private:
  int64_t draw(SplitMix& random) const {
    return static_cast<int64_t>(random.below(static_cast<uint64_t>(num_classes_)));
  }
  void fill_classes(SplitMix& random, std::span<int64_t> classes) const {
    for (int64_t& value : classes) value = draw(random);
  }

  int64_t samples_;
  SampleSpec inputs_;
  SampleSpec targets_{{}, at::kLong};
  int64_t num_classes_;
  Kind kind_;
};

// The dimensions that the task's models need of a sample.
void check_shape(const std::vector<int64_t>& shape, Task task, const std::string& role) {
  const size_t dims = shape.size();
  if (task == Task::kLanguageModel && dims != 1) throw Error(ErrorKind::kSpec, role + ".shape of tokens is [length]");
  if (task == Task::kSegmentation && dims != 3 && dims != 4)
    throw Error(ErrorKind::kSpec, role + ".shape is [channels, height, width] or [channels, depth, height, width]");
}

}  // namespace

std::unique_ptr<Source> open_synthetic(const SourceRequest& request) {
  const ArgReader args(request.args, request.role, {"samples", "shape", "num_classes", "targets"});
  const int64_t samples = args.integer("samples"), classes = args.integer("num_classes");
  if (samples < 1 || classes < 1)
    throw Error(ErrorKind::kSpec, request.role + ": samples and num_classes are at least 1");
  const Kind kind = kind_of(args.text("targets", "class"), request.role);
  need_task(request, std::string("targets: ") + kind.name, kind.task);
  const auto known = request.options.classes;
  if (known && classes > *known) {
    throw Error(ErrorKind::kSpec, request.role + ".num_classes is " + std::to_string(classes) + ", the model's only " +
                                      std::to_string(*known));
  }
  std::vector<int64_t> shape = args.sizes("shape");
  check_shape(shape, kind.task, request.role);
  return std::make_unique<SyntheticSource>(samples, std::move(shape), classes, kind);
}

}  // namespace gputrain

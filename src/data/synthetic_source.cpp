#include <cstring>

#include "data/args.h"
#include "data/pipeline.h"
#include "data/sources.h"
#include "util/error.h"
#include "util/random.h"

namespace gputrain {
namespace {

class SyntheticSource : public Source {
 public:
  SyntheticSource(int64_t samples, std::vector<int64_t> shape, int64_t num_classes)
      : samples_(samples), spec_{std::move(shape), at::kFloat}, num_classes_(num_classes) {}

  int64_t size() const override { return samples_; }
  std::vector<int64_t> sample_shape() const override { return spec_.shape; }
  at::ScalarType sample_type() const override { return spec_.type; }
  at::ScalarType target_type() const override { return at::kLong; }
  std::vector<int64_t> target_shape() const override { return {}; }

  void read(int64_t id, void* sample, void* target) const override {
    GP_CHECK(id >= 0 && id < samples_, "sample " + std::to_string(id));
    SplitMix random(derive_seed(RandomDomain::kSynthetic, 0, static_cast<uint64_t>(id), 0));
    const auto label = static_cast<int64_t>(random.below(static_cast<uint64_t>(num_classes_)));
    std::memcpy(target, &label, sizeof label);
    auto* values = static_cast<float*>(sample);
    const int64_t count = spec_.elements();
    for (int64_t i = 0; i < count; ++i)
      values[i] = static_cast<float>(static_cast<int64_t>(random.next()) >> 40) * 0x1p-23f;
  }

  Json fingerprint() const override {
    return {{"format", "synthetic"},
            {"samples", samples_},
            {"shape", spec_.shape},
            {"dtype", "float32"},
            {"num_classes", num_classes_}};
  }

 private:
  int64_t samples_;
  SampleSpec spec_;
  int64_t num_classes_;
};

}  // namespace

std::unique_ptr<Source> open_synthetic(const SourceRequest& request) {
  const ArgReader args(request.args, request.role, {"samples", "shape", "num_classes"});
  const int64_t samples = args.integer("samples"), classes = args.integer("num_classes");
  if (samples < 1 || classes < 1)
    throw Error(ErrorKind::kSpec, request.role + ": samples and num_classes are at least 1");
  if (request.num_classes >= 0 && classes > request.num_classes) {
    throw Error(ErrorKind::kSpec, request.role + ".num_classes is " + std::to_string(classes) + ", the model's only " +
                                      std::to_string(request.num_classes));
  }
  return std::make_unique<SyntheticSource>(samples, args.sizes("shape"), classes);
}

}  // namespace gputrain

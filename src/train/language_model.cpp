#include <cmath>

#include <ATen/ATen.h>

#include "train/loss.h"
#include "train/objectives.h"

namespace gputrain {
namespace {

class LanguageModel : public Objective {
 public:
  LanguageModel(const LossPlan& loss, const ClassCount& classes)
      : options_{.label_smoothing = loss.label_smoothing, .ignore_index = loss.ignore_index}, classes_(classes) {}

  int64_t count(const at::Tensor& targets) const override {
    return options_.ignore_index ? targets.ne(*options_.ignore_index).sum().item<int64_t>() : targets.numel();
  }
  std::optional<int64_t> count_of(int64_t samples, const std::vector<int64_t>& target_shape) const override {
    if (options_.ignore_index || target_shape.size() != 1) return std::nullopt;
    return samples * target_shape[0];
  }

  void check(const at::Tensor& outputs, const at::Tensor& targets, const std::vector<int64_t>& ids) const override {
    if (outputs.dim() != 3 || targets.dim() != 2 || outputs.size(0) != targets.size(0) ||
        outputs.size(1) != targets.size(1) || outputs.size(2) != classes_.count)
      refuse_shapes("language_model", outputs, targets, "logits [n, length, classes] and tokens [n, length]");
    check_targets(targets, classes_, options_.ignore_index, ids);
  }

  at::Tensor loss_sum(const at::Tensor& outputs, const at::Tensor& targets) const override {
    return cross_entropy_sum(outputs.flatten(0, 1), targets.flatten(), options_);
  }

  // [loss, right, tokens that count, samples]
  at::Tensor sums(const at::Tensor& outputs, const at::Tensor& targets) const override {
    const at::Tensor logits = outputs.flatten(0, 1), tokens = targets.flatten();
    const CrossEntropyOptions plain{.label_smoothing = 0, .ignore_index = options_.ignore_index};
    const at::Tensor loss = cross_entropy_each(logits, tokens, plain).sum(at::kDouble);
    const at::Tensor counted =
        options_.ignore_index ? tokens.ne(*options_.ignore_index) : at::ones_like(tokens, at::kBool);
    const at::Tensor right = logits.argmax(1).eq(tokens).logical_and(counted).sum();
    return stack_sums({loss, right, counted.sum(), at::full_like(right, static_cast<double>(targets.size(0)))});
  }
  int64_t sum_count() const override { return 4; }

  Metrics metrics(const at::Tensor& sums) const override {
    const double* sum = sums.const_data_ptr<double>();
    const double loss = sum[0] / sum[2];
    return {{{"loss", loss}, {"perplexity", std::exp(loss)}, {"accuracy", sum[1] / sum[2]}},
            static_cast<int64_t>(sum[3])};
  }

 private:
  CrossEntropyOptions options_;
  ClassCount classes_;
};

}  // namespace

std::unique_ptr<Objective> make_language_model(const LossPlan& loss, const ClassCount& classes) {
  return std::make_unique<LanguageModel>(loss, classes);
}

}  // namespace gputrain

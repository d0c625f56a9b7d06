#include <ATen/ATen.h>

#include "train/loss.h"
#include "train/objectives.h"

namespace gputrain {
namespace {

class Classification : public Objective {
 public:
  Classification(const LossPlan& loss, int top_k, const ClassCount& classes)
      : loss_(loss), top_k_(top_k), classes_(classes) {}

  void check(const at::Tensor& outputs, const at::Tensor& targets, const std::vector<int64_t>& ids) const override {
    if (outputs.dim() != 2 || targets.dim() != 1 || outputs.size(0) != targets.size(0) ||
        outputs.size(1) != classes_.count)
      refuse_shapes("classification", outputs, targets, "logits [n, classes] and labels [n]");
    check_targets(targets, classes_, std::nullopt, ids);
  }

  at::Tensor loss_sum(const at::Tensor& outputs, const at::Tensor& targets) const override {
    return cross_entropy_sum(outputs, targets, {.label_smoothing = loss_.label_smoothing, .ignore_index = {}});
  }

  // [loss, right, among the first k, count]
  at::Tensor sums(const at::Tensor& outputs, const at::Tensor& targets) const override {
    const at::Tensor loss = cross_entropy_each(outputs, targets).sum(at::kDouble);
    const at::Tensor right = outputs.argmax(1).eq(targets).sum();
    return stack_sums(
        {loss, right, among_first(outputs, targets).sum(), at::full_like(right, static_cast<double>(targets.size(0)))});
  }
  int64_t sum_count() const override { return 4; }

  Metrics metrics(const at::Tensor& sums) const override {
    const double* sum = sums.const_data_ptr<double>();
    const double count = sum[3];
    Metrics metrics{{{"loss", sum[0] / count}, {"accuracy", sum[1] / count}}, static_cast<int64_t>(count)};
    if (top_k_ > 0) metrics.values.emplace_back("top_k_accuracy", sum[2] / count);
    return metrics;
  }

 private:
  // Whose label's logit fewer than k others come before: larger ones, and equal ones of a smaller class. A NaN comes
  // before all, and has all before it.
  at::Tensor among_first(const at::Tensor& outputs, const at::Tensor& targets) const {
    const at::Tensor labels = targets.to(at::kLong).unsqueeze(1), own = outputs.gather(1, labels);
    const at::Tensor earlier = at::arange(outputs.size(1), labels.options()).unsqueeze(0).lt(labels);
    const at::Tensor before = outputs.le(own).logical_not().logical_or(outputs.eq(own).logical_and(earlier));
    return before.sum(1).lt(top_k_);
  }

  LossPlan loss_;
  int top_k_;
  ClassCount classes_;
};

}  // namespace

std::unique_ptr<Objective> make_classification(const LossPlan& loss, int top_k, const ClassCount& classes) {
  return std::make_unique<Classification>(loss, top_k, classes);
}

}  // namespace gputrain

#include <cmath>

#include <ATen/ATen.h>

#include "train/loss.h"
#include "train/objectives.h"

namespace gputrain {
namespace {

class Segmentation : public Objective {
 public:
  Segmentation(const LossPlan& loss, const ClassCount& classes)
      : loss_(loss), classes_(classes), cells_(classes.count * classes.count) {}

  void check(const at::Tensor& outputs, const at::Tensor& targets, const std::vector<int64_t>& ids) const override {
    const bool fits = outputs.dim() >= 3 && targets.dim() == outputs.dim() - 1 && outputs.size(0) == targets.size(0) &&
                      outputs.size(1) == classes_.count && outputs.sizes().slice(2) == targets.sizes().slice(1);
    if (!fits) refuse_shapes("segmentation", outputs, targets, "logits [n, classes, ...] and masks [n, ...]");
    check_targets(targets, classes_, loss_.ignore_index, ids);
  }

  at::Tensor loss_sum(const at::Tensor& outputs, const at::Tensor& targets) const override {
    return loss_each(outputs, targets).sum();
  }

  // [loss, samples, confusion matrix by rows of true classes]
  at::Tensor sums(const at::Tensor& outputs, const at::Tensor& targets) const override {
    const at::Tensor loss = loss_each(outputs, targets).sum(at::kDouble);
    const at::Tensor labels = targets.to(at::kLong), found = outputs.argmax(1);
    at::Tensor cells = labels * classes_.count + found;
    // Ignored pixels go into one cell more, which is cut off.
    if (loss_.ignore_index) cells = cells.where(labels.ne(*loss_.ignore_index), cells_);
    cells = cells.flatten();
    // bincount would wait for a GPU, to learn how long its result is.
    const at::Tensor counts = at::zeros({cells_ + 1}, cells.options());
    const at::Tensor matrix = counts.scatter_add(0, cells, at::ones_like(cells)).slice(0, 0, cells_);
    const at::Tensor head = stack_sums({loss, at::full_like(loss, static_cast<double>(targets.size(0)))});
    return at::cat({head, matrix.to(at::kDouble)});
  }
  int64_t sum_count() const override { return 2 + cells_; }

  Metrics metrics(const at::Tensor& sums) const override {
    const at::Tensor matrix = sums.slice(0, 2).view({classes_.count, classes_.count});
    const at::Tensor right = matrix.diagonal(), wanted = matrix.sum(1), found = matrix.sum(0);
    const at::Tensor either = wanted + found - right;
    // 0 / 0, a class that neither occurs nor is found, is left out.
    const at::Tensor iou = (right / either).nanmean(), dice = (2 * right / (wanted + found)).nanmean();
    const auto samples = sums[1].item<double>();
    return {{{"loss", sums[0].item<double>() / samples},
             {"accuracy", (right.sum() / matrix.sum()).item<double>()},
             {"miou", iou.item<double>()},
             {"dice", dice.item<double>()}},
            static_cast<int64_t>(samples)};
  }

 private:
  at::Tensor loss_each(const at::Tensor& outputs, const at::Tensor& targets) const {
    // Once for both terms: each cast of its own would round its gradient to half precision before they are added.
    const at::Tensor logits = widened(outputs);
    const CrossEntropyOptions options{.label_smoothing = 0, .ignore_index = loss_.ignore_index};
    at::Tensor each = cross_entropy_each(logits, targets, options).flatten(1);
    if (loss_.ignore_index) {
      each = each.sum(1) / targets.flatten(1).ne(*loss_.ignore_index).sum(1).clamp_min(1);
    } else {
      each = each.mean(1);
    }
    if (loss_.dice_weight == 0) return each;
    return each + loss_.dice_weight * dice_loss_each(logits, targets, loss_.ignore_index);
  }

  LossPlan loss_;
  ClassCount classes_;
  int64_t cells_;  // of the confusion matrix
};

}  // namespace

std::unique_ptr<Objective> make_segmentation(const LossPlan& loss, const ClassCount& classes) {
  return std::make_unique<Segmentation>(loss, classes);
}

}  // namespace gputrain

#include "train/loss.h"

#include <ATen/ATen.h>

namespace gputrain {
namespace {

constexpr int64_t kNothingIgnored = -100;  // PyTorch's default: never a target here

at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& targets, const CrossEntropyOptions& options,
                         at::Reduction::Reduction reduction) {
  at::Tensor scores = widened(logits), labels = targets.to(at::kLong);
  const int64_t ignored = options.ignore_index.value_or(kNothingIgnored);
  // Of pixels CUDA's kernel is not deterministic and throws where that is asked for; of rows it is.
  const bool as_rows = scores.dim() > 2 && scores.is_cuda() && at::globalContext().deterministicAlgorithms();
  if (as_rows) scores = scores.movedim(1, -1).flatten(0, -2), labels = labels.flatten();
  const at::Tensor loss =
      at::cross_entropy_loss(scores, labels, /*weight=*/{}, reduction, ignored, options.label_smoothing);
  return as_rows && reduction == at::Reduction::None ? loss.view(targets.sizes()) : loss;
}

}  // namespace

at::Tensor widened(const at::Tensor& logits) {
  const bool wide = logits.scalar_type() == at::kDouble || logits.scalar_type() == at::kFloat;
  return wide ? logits : logits.to(at::kFloat);
}

at::Tensor cross_entropy_sum(const at::Tensor& logits, const at::Tensor& targets, const CrossEntropyOptions& options) {
  return cross_entropy(logits, targets, options, at::Reduction::Sum);
}

at::Tensor cross_entropy_each(const at::Tensor& logits, const at::Tensor& targets, const CrossEntropyOptions& options) {
  return cross_entropy(logits, targets, options, at::Reduction::None);
}

at::Tensor dice_loss_each(const at::Tensor& logits, const at::Tensor& targets, std::optional<int64_t> ignore_index) {
  constexpr double kSmooth = 1e-5;
  at::Tensor predicted = widened(logits).softmax(1);
  at::Tensor labels = targets.to(at::kLong);
  at::Tensor counts;  // 1 where a pixel counts, [n, 1, ...]
  if (ignore_index) {
    const at::Tensor counted = labels.ne(*ignore_index);
    labels = labels.where(counted, 0);
    counts = counted.unsqueeze(1).to(predicted.scalar_type());
    predicted = predicted * counts;
  }
  at::Tensor wanted = at::zeros_like(predicted).scatter_(1, labels.unsqueeze(1), 1);
  if (counts.defined()) wanted = wanted * counts;
  const auto over_pixels = [](const at::Tensor& values) { return values.flatten(2).sum(2); };  // [n, classes]
  const at::Tensor both = over_pixels(predicted * wanted);
  const at::Tensor either = over_pixels(predicted) + over_pixels(wanted);
  return 1 - ((2 * both + kSmooth) / (either + kSmooth)).mean(1);
}

}  // namespace gputrain

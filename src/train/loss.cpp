#include "train/loss.h"

#include <ATen/ATen.h>

#include "util/error.h"

namespace gputrain {
namespace {

void check_targets(const at::Tensor& logits, const at::Tensor& targets) {
  if (logits.dim() != 2 || targets.dim() != 1 || logits.size(0) != targets.size(0)) {
    throw Error(ErrorKind::kInternal, "classification loss of logits " + c10::str(logits.sizes()) + " and targets " +
                                          c10::str(targets.sizes()));
  }
  if (!targets.device().is_cpu() || targets.numel() == 0) return;
  const auto [least, most] = targets.aminmax();
  if (least.item<int64_t>() >= 0 && most.item<int64_t>() < logits.size(1)) return;
  const int64_t culprit = least.item<int64_t>() < 0 ? least.item<int64_t>() : most.item<int64_t>();
  throw Error(ErrorKind::kData,
              "label " + std::to_string(culprit) + ", but the model has " + std::to_string(logits.size(1)) + " classes",
              "", "labels count from 0: set model.args.num_classes to the number of classes of the data");
}

at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& targets, at::Reduction::Reduction reduction) {
  check_targets(logits, targets);
  const at::Tensor wide = logits.scalar_type() == at::kDouble ? logits : logits.to(at::kFloat);
  return at::cross_entropy_loss(wide, targets.to(at::kLong), /*weight=*/{}, reduction);
}

}  // namespace

at::Tensor cross_entropy_sum(const at::Tensor& logits, const at::Tensor& targets) {
  return cross_entropy(logits, targets, at::Reduction::Sum);
}

at::Tensor cross_entropy_each(const at::Tensor& logits, const at::Tensor& targets) {
  return cross_entropy(logits, targets, at::Reduction::None);
}

}  // namespace gputrain

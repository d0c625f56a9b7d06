#pragma once
// The objectives behind make_objective().
#include <memory>

#include "train/objective.h"

namespace gputrain {

// How many classes there are, and who looks that targets are below that.
struct ClassCount {
  int64_t count = 0;
  bool checked_by_source = false;  // then check() need not look again in every step
};

// Logits [n, classes], targets [n]. Metrics: loss, accuracy (of equal logits the first counts), top_k_accuracy.
std::unique_ptr<Objective> make_classification(const LossPlan& loss, int top_k, const ClassCount& classes);

// Logits [n, length, classes], targets [n, length]. Metrics are of tokens: loss, perplexity, accuracy.
std::unique_ptr<Objective> make_language_model(const LossPlan& loss, const ClassCount& classes);

// Logits [n, classes, ...], targets [n, ...]. The loss of a sample is the mean cross entropy of its counted pixels
// (0 without any) plus dice_weight times its Dice loss. Metrics: loss (of a sample), and from the confusion matrix of
// all counted pixels: accuracy, miou, dice.
std::unique_ptr<Objective> make_segmentation(const LossPlan& loss, const ClassCount& classes);

// Outputs and targets of as many values a sample; shapes may differ ([n, 1] and [n]). The loss of a sample is the mean
// distance of its values. Metrics: loss, mae, rmse, each over all values of all samples.
std::unique_ptr<Objective> make_regression(const LossPlan& loss);

// Error(kSpec): outputs and targets of these shapes do not fit.
[[noreturn]] void refuse_shapes(const std::string& task, const at::Tensor& outputs, const at::Tensor& targets,
                                const std::string& wanted);
// Error(kData) that names the sample of the first target outside 0..classes-1. Targets [n, ...] on the host.
void check_targets(const at::Tensor& targets, const ClassCount& classes, std::optional<int64_t> ignore_index,
                   const std::vector<int64_t>& ids);
// double [values.size()] of scalar tensors.
at::Tensor stack_sums(const std::vector<at::Tensor>& values);

}  // namespace gputrain

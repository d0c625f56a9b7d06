#include "train/loss.h"

#include <cmath>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace gputrain {
namespace {

at::Tensor labels(std::vector<int64_t> values) {
  return at::tensor(values, at::kLong);
}

TEST(CrossEntropySum, OfUniformLogitsIsLogOfTheClassesForEachSample) {
  const at::Tensor logits = at::full({3, 4}, 7.0, at::kDouble);
  EXPECT_NEAR(cross_entropy_sum(logits, labels({0, 3, 1})).item<double>(), 3 * std::log(4.0), 1e-14);
}

// -log softmax by hand: log(1 + e^-2) for the right class, 2 more for the wrong one.
TEST(CrossEntropySum, IsASumOverSamples) {
  const at::Tensor logits = at::tensor({2.0, 0.0, 2.0, 0.0}, at::kDouble).reshape({2, 2});
  const double right = std::log1p(std::exp(-2.0));
  EXPECT_NEAR(cross_entropy_sum(logits, labels({0, 1})).item<double>(), right + right + 2, 1e-14);
  const at::Tensor each = cross_entropy_each(logits, labels({0, 1}));
  EXPECT_NEAR(each[0].item<double>(), right, 1e-14);
  EXPECT_NEAR(each[1].item<double>(), right + 2, 1e-14);
}

// Trap 1: sums of micro-batches over one count equal the whole batch's, whatever their sizes.
TEST(CrossEntropySum, MicroBatchesAddUpToTheWholeBatchsGradient) {
  const at::Tensor values = at::arange(20, at::kDouble).sin().reshape({5, 4}), targets = labels({0, 1, 2, 3, 0});
  const at::Tensor whole = values.clone().set_requires_grad(true), cut = values.clone().set_requires_grad(true);
  (cross_entropy_sum(whole, targets) / 5).backward();
  for (const auto& [from, to] : {std::pair{0, 3}, std::pair{3, 5}}) {
    (cross_entropy_sum(cut.slice(0, from, to), targets.slice(0, from, to)) / 5).backward();
  }
  EXPECT_LT((whole.grad() - cut.grad()).abs().max().item<double>(), 1e-16);
}

TEST(CrossEntropySum, IsFloatForHalfLogitsAndDoubleForDouble) {
  for (const at::ScalarType type : {at::kHalf, at::kBFloat16, at::kFloat}) {
    EXPECT_EQ(cross_entropy_sum(at::ones({2, 3}, type), labels({0, 1})).scalar_type(), at::kFloat);
  }
  EXPECT_EQ(cross_entropy_sum(at::ones({2, 3}, at::kDouble), labels({0, 1})).scalar_type(), at::kDouble);
  // Logits this large have no half-precision exponential: the sum is exact because it is taken in float.
  EXPECT_EQ(cross_entropy_sum(at::full({2, 2}, 60000.0, at::kHalf), labels({0, 1})).item<float>(),
            2 * static_cast<float>(std::log(2.0)));
}

TEST(CrossEntropySum, TakesNarrowIntegerTargets) {
  EXPECT_NEAR(cross_entropy_sum(at::zeros({2, 2}, at::kDouble), at::tensor({0, 1}, at::kByte)).item<double>(),
              2 * std::log(2.0), 1e-15);
}

TEST(CrossEntropySum, OfNoSamplesIsZeroWithAGradientOfZero) {
  const at::Tensor weight = at::ones({3, 4}, at::kDouble).set_requires_grad(true);
  const at::Tensor logits = at::zeros({0, 4}, at::kDouble).matmul(weight.t());
  const at::Tensor loss = cross_entropy_sum(logits, labels({}));
  EXPECT_EQ(loss.item<double>(), 0);
  loss.backward();
  EXPECT_TRUE(at::equal(weight.grad(), at::zeros({3, 4}, at::kDouble)));
}

}  // namespace
}  // namespace gputrain

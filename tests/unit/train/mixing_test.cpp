#include "train/mixing.h"

#include <cmath>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "train/loss.h"
#include "util/error.h"

namespace gputrain {
namespace {

TEST(Mix, WithoutAPlanNothingHappens) {
  const at::Tensor inputs = at::rand({4, 3}), targets = at::arange(4);
  const Mixed mixed = mix({}, 1, inputs, targets);
  EXPECT_TRUE(mixed.inputs.is_same(inputs));
  EXPECT_FALSE(mixed.others.defined());
}

TEST(Mix, MixupIsOneShareOfEachWithTheOneBefore) {
  const at::Tensor inputs = at::arange(8, at::kDouble).reshape({4, 2}), targets = at::arange(4);
  const Mixed mixed = mix({.mixup = 0.4, .cutmix = 0}, 5, inputs, targets);
  EXPECT_GT(mixed.share, 0);
  EXPECT_LT(mixed.share, 1);
  for (int64_t i = 0; i < 4; ++i) {
    const at::Tensor expected = inputs[i] * mixed.share + inputs[(i + 3) % 4] * (1 - mixed.share);
    EXPECT_TRUE(at::equal(mixed.inputs[i], expected)) << i;
    EXPECT_EQ(mixed.others[i].item<int64_t>(), (i + 3) % 4);
  }
  EXPECT_EQ(mix({.mixup = 0.4, .cutmix = 0}, 5, inputs, targets).share, mixed.share) << "decided by the key";
  EXPECT_NE(mix({.mixup = 0.4, .cutmix = 0}, 6, inputs, targets).share, mixed.share);
}

// The loss of both targets by share is the cross entropy of the mixed one-hot target, as torchvision's MixUp trains.
TEST(Mix, LossByShareIsTheLossOfSoftTargets) {
  const at::Tensor logits = at::arange(12, at::kDouble).sin().reshape({4, 3}),
                   targets = at::tensor({0, 1, 2, 1}, at::kLong);
  const Mixed mixed = mix({.mixup = 1, .cutmix = 0}, 9, at::zeros({4, 2}), targets);
  const at::Tensor soft = at::one_hot(targets, 3).to(at::kDouble) * mixed.share +
                          at::one_hot(mixed.others, 3).to(at::kDouble) * (1 - mixed.share);
  const double expected = at::cross_entropy_loss(logits, soft, {}, at::Reduction::Sum).item<double>();
  const at::Tensor ours =
      cross_entropy_sum(logits, targets) * mixed.share + cross_entropy_sum(logits, mixed.others) * (1 - mixed.share);
  EXPECT_NEAR(ours.item<double>(), expected, 1e-12);
}

TEST(Mix, CutmixPutsARectangleOfTheOneBeforeAndItsAreaIsTheShare) {
  const at::Tensor inputs = at::arange(3, at::kFloat).reshape({3, 1, 1, 1}).expand({3, 2, 10, 16}).contiguous();
  double least = 1, most = 0;
  for (uint64_t key = 0; key < 50; ++key) {
    const Mixed mixed = mix({.mixup = 0, .cutmix = 1}, key, inputs, at::arange(3));
    const at::Tensor own = mixed.inputs.eq(inputs), other = mixed.inputs.eq(inputs.roll(1, 0));
    EXPECT_TRUE(own.logical_or(other).all().item<bool>());
    EXPECT_NEAR(own.to(at::kDouble).mean().item<double>(), mixed.share, 1e-12) << key;
    least = std::min(least, mixed.share), most = std::max(most, mixed.share);
  }
  EXPECT_LT(least, 0.4);
  EXPECT_GT(most, 0.8);
}

TEST(Mix, SharesHaveTheMeanAndVarianceOfBeta) {
  const double a = 0.3;
  double sum = 0, squares = 0;
  constexpr int kDraws = 4000;
  for (uint64_t key = 0; key < kDraws; ++key) {
    const double share = mix({.mixup = a, .cutmix = 0}, key * 7919, at::zeros({2, 1}), at::arange(2)).share;
    sum += share, squares += share * share;
  }
  const double mean = sum / kDraws, variance = squares / kDraws - mean * mean;
  EXPECT_NEAR(mean, 0.5, 0.03);
  EXPECT_NEAR(variance, 1 / (4 * (2 * a + 1)), 0.01);
}

TEST(Mix, CutmixOfVectorsIsASpecError) {
  EXPECT_THROW(mix({.mixup = 0, .cutmix = 1}, 1, at::zeros({4, 3}), at::arange(4)), Error);
}

}  // namespace
}  // namespace gputrain

// Autocast scopes: which types come out, nesting, and the weight cache that must not outlive an update.
#include "train/precision.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>

#include "support/golden.h"
#include "train/loss.h"

namespace gputrain {
namespace {

at::ScalarType linear_type(Precision precision) {
  const at::Tensor weight = at::ones({2, 3}), x = at::ones({1, 3});
  const AutocastScope scope(precision, at::kCPU);
  return at::linear(x, weight).scalar_type();
}

TEST(AutocastScope, HalfPrecisionsOnly) {
  EXPECT_EQ(linear_type(Precision::kBf16), at::kBFloat16);
  EXPECT_EQ(linear_type(Precision::kFp16), at::kHalf);
  EXPECT_EQ(linear_type(Precision::kFp32), at::kFloat);
  EXPECT_EQ(linear_type(Precision::kTf32), at::kFloat);
  EXPECT_FALSE(at::autocast::is_autocast_enabled(at::kCPU));
}

// Trap 9: the loss is float although the logits are not.
TEST(AutocastScope, LossInsideIsFloat) {
  for (const Precision precision : {Precision::kBf16, Precision::kFp16}) {
    const AutocastScope scope(precision, at::kCPU);
    const at::Tensor logits = at::linear(at::ones({2, 3}), at::ones({4, 3}));
    ASSERT_NE(logits.scalar_type(), at::kFloat);
    EXPECT_EQ(cross_entropy_sum(logits, at::zeros({2}, at::kLong)).scalar_type(), at::kFloat);
  }
}

TEST(AutocastScope, NestsAndRestores) {
  const AutocastScope outer(Precision::kBf16, at::kCPU);
  {
    const AutocastScope inner(Precision::kFp16, at::kCPU);
    EXPECT_EQ(at::autocast::get_autocast_dtype(at::kCPU), at::kHalf);
    {
      const AutocastScope innermost(Precision::kFp32, at::kCPU);  // leaves things as they are
      EXPECT_EQ(at::autocast::get_autocast_dtype(at::kCPU), at::kHalf);
    }
    EXPECT_TRUE(at::autocast::is_autocast_enabled(at::kCPU));
  }
  EXPECT_TRUE(at::autocast::is_autocast_enabled(at::kCPU));
  EXPECT_EQ(at::autocast::get_autocast_dtype(at::kCPU), at::kBFloat16);
}

TEST(AutocastScope, RestoresAfterAnException) {
  try {
    const AutocastScope scope(Precision::kBf16, at::kCPU);
    at::linear(at::ones({1, 3}), at::ones({2, 4}));
    FAIL() << "shapes do not fit";
  } catch (const c10::Error&) {
    EXPECT_FALSE(at::autocast::is_autocast_enabled(at::kCPU));
    EXPECT_EQ(at::autocast::increment_nesting(), 1);
    at::autocast::decrement_nesting();
  }
}

// Trap 10: the half-precision copy of a weight is cached within a scope (so that a weight used twice is cast once) and
// gone after it.
TEST(AutocastScope, CachedWeightsEndWithTheScope) {
  const at::Tensor weight = at::ones({1, 3}).set_requires_grad(true);
  const at::Tensor x = at::ones({1, 3});
  const auto set = [&](double value) {
    const at::NoGradGuard no_grad;
    weight.fill_(value);
  };
  const auto pass = [&] { return at::linear(x, weight).to(at::kFloat).item<float>(); };
  set(1);
  {
    const AutocastScope scope(Precision::kBf16, at::kCPU);
    EXPECT_EQ(pass(), 3);
    set(2);
    EXPECT_EQ(pass(), 3);  // the cache at work: if this fails the test below proves nothing
  }
  const AutocastScope scope(Precision::kBf16, at::kCPU);
  EXPECT_EQ(pass(), 6);
}

TEST(AutocastScope, GradientsAreFloatAndNearTheExactOnes) {
  torch::nn::Linear layer(8, 4);
  const at::Tensor x = testing::ramp({5, 8}, at::kFloat), targets = at::arange(5, at::kLong).remainder(4);
  const auto gradient = [&](Precision precision) {
    layer->weight.mutable_grad() = at::Tensor();
    at::Tensor loss;
    {
      const AutocastScope scope(precision, at::kCPU);
      loss = cross_entropy_sum(layer->forward(x), targets);
    }
    loss.backward();
    return layer->weight.grad().clone();
  };
  const at::Tensor exact = gradient(Precision::kFp32);
  for (const Precision precision : {Precision::kBf16, Precision::kFp16}) {
    const at::Tensor half = gradient(precision);
    EXPECT_EQ(half.scalar_type(), at::kFloat);
    EXPECT_LT(testing::relative_difference(half, exact), 2e-2);
    EXPECT_FALSE(at::equal(half, exact));
  }
}

TEST(Precision, TypesAndScaler) {
  EXPECT_EQ(model_type(Precision::kFp64), at::kDouble);
  for (const Precision precision : {Precision::kFp32, Precision::kTf32, Precision::kBf16, Precision::kFp16}) {
    EXPECT_EQ(model_type(precision), at::kFloat);
    EXPECT_EQ(needs_grad_scaler(precision), precision == Precision::kFp16);
  }
  EXPECT_FALSE(needs_grad_scaler(Precision::kFp64));
}

TEST(SetUpPrecision, Tf32OnlyWhereAskedAndDeterminismBothWays) {
  const at::Context& context = at::globalContext();
  for (const Precision precision : {Precision::kTf32, Precision::kFp32, Precision::kBf16}) {
    set_up_precision(precision, precision == Precision::kTf32);
    const bool tf32 = precision == Precision::kTf32;
    EXPECT_EQ(context.allowTF32CuBLAS(), tf32);
    EXPECT_EQ(context.allowTF32CuDNN(), tf32);
    EXPECT_EQ(context.deterministicAlgorithms(), tf32);
    EXPECT_EQ(context.deterministicCuDNN(), tf32);
    EXPECT_FALSE(context.deterministicAlgorithmsWarnOnly());
  }
}

}  // namespace
}  // namespace gputrain

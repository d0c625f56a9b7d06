// Clipping against torch.nn.utils.clip_grad_norm_, to the bit.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "support/golden.h"
#include "train/grad_scaler.h"

namespace gputrain {
namespace {

std::vector<at::Tensor> gradients(at::ScalarType type) {
  return {testing::ramp({7, 5}, type, 50), testing::ramp({7}, type, 51), testing::ramp({3, 2, 3}, type, 52)};
}

TEST(ClipGradNorm, EqualsPythonToTheBit) {
  const Json file = testing::golden("numerics.json");
  const Json& runs = testing::for_this_cpu(file.at("exact")).at("clip");
  ASSERT_EQ(runs.size(), 4u);
  for (const Json& golden : runs) {
    const at::ScalarType type = testing::scalar_type(golden.at("dtype").get<std::string>());
    const std::vector<at::Tensor> ours = gradients(type);
    const at::Tensor norm = clip_grad_norm(ours, golden.at("max_norm").get<double>());
    EXPECT_EQ(testing::to_hex(norm), golden.at("norm").get<std::string>()) << golden.at("max_norm");
    EXPECT_EQ(norm.dim(), 0);
    for (size_t i = 0; i < ours.size(); ++i) {
      EXPECT_EQ(testing::to_hex(ours[i]), golden.at("gradients")[i].get<std::string>())
          << golden.at("max_norm") << " " << i;
    }
  }
}

TEST(ClipGradNorm, IsTheGlobalNormAndScalesAllByTheSame) {
  const std::vector<at::Tensor> g = {at::full({1}, 3.0, at::kDouble), at::full({1}, 4.0, at::kDouble)};
  EXPECT_EQ(clip_grad_norm(g, 2.5).item<double>(), 5);
  EXPECT_NEAR(g[0].item<double>(), 1.5, 1e-6);
  EXPECT_NEAR(g[1].item<double>(), 2.0, 1e-6);
}

TEST(ClipGradNorm, ZeroMeasuresOnlyAndSmallGradientsAreNeverAmplified) {
  for (const double max_norm : {0.0, 1000.0}) {
    const std::vector<at::Tensor> g = gradients(at::kFloat), before = gradients(at::kFloat);
    EXPECT_GT(clip_grad_norm(g, max_norm).item<double>(), 0);
    for (size_t i = 0; i < g.size(); ++i) EXPECT_TRUE(at::equal(g[i], before[i])) << max_norm;
  }
}

TEST(ClipGradNorm, NonFiniteShowsInTheNorm) {
  EXPECT_TRUE(std::isinf(clip_grad_norm({at::ones({2}), at::full({2}, INFINITY)}, 1).item<double>()));
  EXPECT_TRUE(std::isnan(clip_grad_norm({at::ones({2}), at::full({2}, NAN)}, 1).item<double>()));
}

TEST(ClipGradNorm, OfNothingIsZero) {
  EXPECT_EQ(clip_grad_norm({}, 1).item<double>(), 0);
}

}  // namespace
}  // namespace gputrain

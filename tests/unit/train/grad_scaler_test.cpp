// The loss scaler against torch.amp.GradScaler, and a whole scaled step with optimizer and clipping.
#include "train/grad_scaler.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/golden.h"
#include "train/optimizer.h"
#include "util/error.h"

namespace gputrain {
namespace {

using ::testing::HasSubstr;

TEST(GradScalerGolden, FollowsTorchStepByStep) {
  // 13 steps of reference_golden.py: growth interval 3, infinities at steps 3, 8 and 9.
  const Json steps = testing::for_this_cpu(testing::golden("numerics.json").at("exact")).at("scaler");
  ASSERT_EQ(steps.size(), 13u);
  GradScaler scaler(true, at::kCPU, {.growth_interval = 3});
  const at::Tensor p = at::tensor({1.0, 2.0}, at::kFloat).set_requires_grad(true);
  const auto optimizer = make_optimizer({"sgd", {{"lr", 0.1}}}, {{"p", p}});
  const at::Tensor slope = at::tensor({0.25, 3.0}, at::kFloat);
  for (size_t i = 0; i < steps.size(); ++i) {
    p.mutable_grad() = at::Tensor();
    scaler.scale((p * slope).sum()).backward();
    if (steps[i].at("bad").get<bool>()) p.mutable_grad()[1].fill_(INFINITY);
    const bool found_inf = scaler.unscale({p.grad()});
    EXPECT_EQ(found_inf, steps[i].at("bad").get<bool>()) << i;
    if (!found_inf) optimizer->step(1.0);
    scaler.update(found_inf);
    EXPECT_EQ(scaler.current(), steps[i].at("scale").get<double>()) << i;
    EXPECT_EQ(scaler.state().at("growth_tracker"), steps[i].at("growth_tracker")) << i;
    EXPECT_EQ(testing::to_hex(p), steps[i].at("parameter").get<std::string>()) << i;
  }
}

void good_step(GradScaler& scaler) {
  scaler.unscale({at::ones({2})});
  scaler.update(false);
}

void bad_step(GradScaler& scaler) {
  EXPECT_TRUE(scaler.unscale({at::full({2}, INFINITY)}));
  scaler.update(true);
}

TEST(GradScaler, GrowsAfterTwoThousandGoodStepsInARow) {
  GradScaler scaler(true, at::kCPU);
  for (int i = 0; i < 1999; ++i) good_step(scaler);
  EXPECT_EQ(scaler.current(), 65536);
  bad_step(scaler);  // starts the count anew
  EXPECT_EQ(scaler.current(), 32768);
  for (int i = 0; i < 1999; ++i) good_step(scaler);
  EXPECT_EQ(scaler.current(), 32768);
  good_step(scaler);
  EXPECT_EQ(scaler.current(), 65536);
}

TEST(GradScaler, UnscaleDividesInPlaceAndFindsEveryKindOfNonFinite) {
  for (const float bad : {INFINITY, -INFINITY, NAN}) {
    GradScaler scaler(true, at::kCPU);
    at::Tensor last = at::full({3}, 65536.0);
    last[2].fill_(bad);
    EXPECT_TRUE(scaler.unscale({at::ones({2}), last})) << bad;
  }
  GradScaler scaler(true, at::kCPU);
  const at::Tensor gradient = at::tensor({65536.0, -131072.0}, at::kFloat);
  EXPECT_FALSE(scaler.unscale({gradient}));
  EXPECT_TRUE(at::equal(gradient, at::tensor({1.0, -2.0}, at::kFloat)));
}

// Another rank's infinity: this rank found none, all agreed on a skip.
TEST(GradScaler, UpdateFollowsTheAgreementNotItsOwnFinding) {
  GradScaler scaler(true, at::kCPU);
  EXPECT_FALSE(scaler.unscale({at::ones({2})}));
  scaler.update(true);
  EXPECT_EQ(scaler.current(), 32768);
  EXPECT_TRUE(scaler.unscale({at::full({2}, INFINITY)}));
  scaler.update(false);
  EXPECT_EQ(scaler.current(), 32768);
  EXPECT_EQ(scaler.state().at("growth_tracker"), 1);
}

// Trap 8: gradients of norm 3 scaled by 65536, clipped to 1 after unscaling: the update is the unscaled run's.
TEST(GradScaler, UnscaleThenClipThenStepEqualsAnUnscaledStep) {
  const auto run = [](bool scaled) {
    GradScaler scaler(scaled, at::kCPU);
    const at::Tensor p = at::tensor({5.0, 7.0, 11.0}, at::kFloat).set_requires_grad(true);
    const auto optimizer = make_optimizer({"adamw", {{"lr", 0.1}}}, {{"p", p}});
    const at::Tensor slope = at::tensor({2.0, -1.0, 2.0}, at::kFloat);
    scaler.scale((p * slope).sum()).backward();
    const bool found_inf = scaler.unscale({p.grad()});
    EXPECT_FALSE(found_inf);
    EXPECT_EQ(clip_grad_norm({p.grad()}, 1.0).item<float>(), 3.0F);
    EXPECT_NEAR(p.grad().norm().item<double>(), 1.0, 1e-6);
    optimizer->step(1.0);
    scaler.update(found_inf);
    return p.detach();
  };
  EXPECT_TRUE(at::equal(run(true), run(false)));
}

TEST(GradScaler, IsExhaustedAtAScaleOfOne) {
  GradScaler scaler(true, at::kCPU, {.initial_scale = 4});
  for (const bool exhausted : {false, false, true, true}) {
    EXPECT_EQ(scaler.exhausted(), exhausted) << scaler.current();
    bad_step(scaler);
  }
  EXPECT_FALSE(GradScaler(false, at::kCPU).exhausted());
}

// Trap 11: over a growth event.
TEST(GradScaler, LoadedStateContinuesLikeTheOriginal) {
  GradScaler original(true, at::kCPU, {.growth_interval = 5});
  bad_step(original);
  for (int i = 0; i < 3; ++i) good_step(original);
  const Json saved = parse_json(original.state().dump(), "test");
  EXPECT_EQ(saved, Json({{"scale", 32768.0}, {"growth_tracker", 3}}));
  GradScaler loaded(true, at::kCPU, {.growth_interval = 5});
  loaded.load(saved);
  for (int i = 0; i < 4; ++i) {
    good_step(original);
    good_step(loaded);
    EXPECT_EQ(loaded.state(), original.state()) << i;
  }
  EXPECT_EQ(loaded.current(), 65536);
}

TEST(GradScaler, BadStateIsACheckpointError) {
  for (const char* text : {"{}", "[]", "null", R"({"scale": 2.0})", R"({"scale": 2.0, "growth_tracker": 1, "more": 1})",
                           R"({"scale": 2.0, "grow_tracker": 1})", R"({"scale": 0, "growth_tracker": 1})",
                           R"({"scale": "nan", "growth_tracker": 1})", R"({"scale": 2.0, "growth_tracker": 1.5})"}) {
    GradScaler scaler(true, at::kCPU);
    try {
      scaler.load(parse_json(text, "test"));
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind, ErrorKind::kCheckpoint) << text;
    }
    EXPECT_EQ(scaler.current(), 65536) << text;
  }
}

TEST(GradScaler, DisabledIsTheIdentity) {
  GradScaler scaler(false, at::kCPU);
  EXPECT_FALSE(scaler.enabled());
  const at::Tensor loss = at::full({}, 3.0), gradient = at::full({2}, INFINITY);
  EXPECT_TRUE(scaler.scale(loss).is_same(loss));
  EXPECT_FALSE(scaler.unscale({gradient}));
  EXPECT_TRUE(at::equal(gradient, at::full({2}, INFINITY)));
  scaler.update(true);
  EXPECT_EQ(scaler.current(), 0);
  EXPECT_EQ(scaler.state(), Json::object());
  scaler.load(Json::object());
  EXPECT_THROW(scaler.load({{"scale", 2.0}, {"growth_tracker", 1}}), Error);
}

TEST(GradScaler, MisuseIsAnInternalError) {
  GradScaler scaler(true, at::kCPU);
  EXPECT_THROW(scaler.update(false), Error);
  scaler.unscale({at::ones({1})});
  EXPECT_THROW(scaler.unscale({at::ones({1})}), Error);  // would divide twice
  scaler.update(false);
  EXPECT_FALSE(scaler.unscale({}));
}

}  // namespace
}  // namespace gputrain

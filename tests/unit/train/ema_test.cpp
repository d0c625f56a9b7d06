#include "train/ema.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "unit/train/train_rig.h"

namespace gputrain {
namespace {

using testing::alone;
using testing::Rig;
using testing::small_plan;
using testing::TempDir;

// Trap 31: average_k = decay^k p_0 + (1 - decay) sum_i decay^(k - i) p_i.
TEST(Ema, EqualsTheClosedForm) {
  const double decay = 0.9;
  at::Tensor p = at::tensor({1.0, -2.0}, at::kDouble);
  const at::Tensor start = p.clone();
  Ema ema(decay, {{"p", p}});
  at::Tensor expected = start.clone();
  for (int i = 1; i <= 20; ++i) {
    p.add_(0.5 * i);
    ema.update();
    expected = expected * decay + p * (1 - decay);
  }
  ASSERT_EQ(ema.state().size(), 1u);
  EXPECT_EQ(ema.state()[0].first, "p/ema");
  EXPECT_LT((ema.state()[0].second - expected).abs().max().item<double>(), 1e-12);
  EXPECT_NE(p[0].item<double>(), ema.state()[0].second[0].item<double>());
}

TEST(Ema, IsPutInPlaceOfTheWeightsAndBack) {
  at::Tensor p = at::ones({2}).set_requires_grad(true);
  Ema ema(0.5, {{"p", p}});
  {
    const at::NoGradGuard no_grad;
    p.fill_(3);
  }
  ema.update();
  const void* data = p.data_ptr();
  {
    const Ema::Applied applied(ema);
    EXPECT_EQ(p[0].item<float>(), 2);
  }
  EXPECT_EQ(p[0].item<float>(), 3);
  EXPECT_EQ(p.data_ptr(), data) << "the reducer and the optimizer hold these tensors";
}

RunPlan averaged_plan(const std::string& output) {
  RunPlan plan = small_plan(output);
  plan.train.ema_decay = 0.8;
  plan.evaluate = testing::epochs(1);
  plan.checkpoint.every = testing::steps(3);
  return plan;
}

// Trap 32: the average is in the checkpoint, and a resumed run ends with the same bits.
TEST(Ema, SurvivesAResumeToTheBit) {
  TempDir straight_directory, broken_directory;
  Rig straight(averaged_plan(straight_directory.path()), alone());
  straight.run();
  RunPlan plan = averaged_plan(broken_directory.path());
  plan.train.max_steps = 6;
  Rig first(plan, alone());
  first.run();
  plan.train.max_steps.reset();
  Rig second(plan, alone());
  EXPECT_EQ(second.state.counters.step, 6);
  EXPECT_EQ(second.hash(), first.hash());
  second.run();
  EXPECT_NE(second.state.ema->state()[0].second.sub(second.state.parameters()[0]).abs().max().item<float>(), 0);
}

TEST(Ema, IsEvaluatedBesideTheWeights) {
  TempDir directory;
  Rig rig(averaged_plan(directory.path()), alone());
  rig.run();
  const auto records = rig.records.of("eval");
  ASSERT_EQ(records.size(), 2u);
  EXPECT_TRUE(records.back().contains("ema_loss")) << records.back().dump();
  EXPECT_TRUE(records.back().contains("ema_accuracy"));
  EXPECT_NE(records.back().at("ema_loss"), records.back().at("loss"));
  const Metrics metrics = *rig.evaluator->run(10);
  const Ema::Applied applied(*rig.state.ema);
  EvaluateOptions options;
  options.loader = rig.loader_options();
  options.loader.micro_batch = 4;
  Evaluator plain({*rig.state.model, *rig.objective, nullptr, *rig.val, rig.vote, rig.marker, rig.stop}, options);
  EXPECT_EQ(plain.run(10)->at("loss"), metrics.at("ema_loss"));
}

TEST(Ema, OneThatTheCheckpointLacksStartsFromItsWeights) {
  TempDir directory;
  RunPlan plan = averaged_plan(directory.path());
  plan.train.ema_decay = 0;
  plan.train.max_steps = 3;
  Rig first(plan, alone());
  first.run();
  plan.train.ema_decay = 0.8;
  Rig second(plan, alone());
  EXPECT_FALSE(second.resumed.saved->has_ema);
  const auto averages = second.state.ema->state();
  const auto parameters = second.state.parameters();
  for (size_t i = 0; i < averages.size(); ++i) EXPECT_TRUE(at::equal(averages[i].second, parameters[i]));
  plan.train.ema_decay = 0;
  Rig third(plan, alone());
  EXPECT_EQ(third.state.counters.step, 3) << "one that is not wanted any more is left out";
}

}  // namespace
}  // namespace gputrain

#include "train/early_stopping.h"

#include <gmock/gmock.h>

#include "unit/train/train_rig.h"

namespace gputrain {
namespace {

using testing::alone;
using ::testing::ElementsAre;
using testing::epochs;
using testing::Rig;
using testing::small_plan;
using testing::steps;
using testing::steps_of;
using testing::TempDir;
using testing::whys_of;

struct Judged {
  explicit Judged(const EarlyStoppingPlan& plan) : stopping(plan, stale, best) {}
  // Whether the run ends at each of `values`.
  std::vector<bool> after(const std::vector<double>& values) {
    std::vector<bool> due;
    for (const double value : values) {
      stopping.note(value);
      due.push_back(stopping.due());
    }
    return due;
  }
  int64_t stale = 0;
  std::optional<double> best;
  EarlyStopping stopping;
};

TEST(EarlyStopping, EndsAfterPatienceEvaluationsWithoutImprovement) {
  Judged judged({"accuracy", 2, 0, true});
  EXPECT_THAT(judged.after({0.5, 0.6, 0.6, 0.55}), ElementsAre(false, false, false, true));
  EXPECT_EQ(judged.best, 0.6);
  EXPECT_EQ(judged.stopping.reason(), "stopped early: accuracy has not improved for 2 evaluations");
}

TEST(EarlyStopping, AnImprovementStartsThePatienceAnew) {
  Judged judged({"loss", 2, 0, false});
  EXPECT_THAT(judged.after({3, 4, 2, 5, 1, 1, 1}), ElementsAre(false, false, false, false, false, false, true));
}

TEST(EarlyStopping, ImprovesByMoreThanMinDelta) {
  Judged judged({"loss", 1, 0.25, false});
  EXPECT_THAT(judged.after({2, 1.5, 1.25}), ElementsAre(false, false, true)) << "0.25 is not more than 0.25";
  Judged larger({"accuracy", 1, 0.25, true});
  EXPECT_THAT(larger.after({0, 0.5, 0.75}), ElementsAre(false, false, true));
}

TEST(EarlyStopping, SmallStepsCountFromTheBestSoFar) {
  Judged judged({"accuracy", 3, 0.5, true});
  EXPECT_THAT(judged.after({1, 1.25, 1.5, 1.75}), ElementsAre(false, false, false, false));
  EXPECT_EQ(judged.best, 1.75);
  EXPECT_EQ(judged.stale, 0);
}

TEST(Trap45NanCountedAsBest, NanNeverImproves) {
  Judged judged({"loss", 2, 0, false});
  EXPECT_THAT(judged.after({NAN, NAN}), ElementsAre(false, true)) << "also when nothing was measured before";
  Judged later({"loss", 2, 0, false});
  EXPECT_THAT(later.after({2, NAN, 1, NAN, NAN}), ElementsAre(false, false, false, false, true));
  EXPECT_EQ(later.best, 1.0);
}

TEST(EarlyStopping, OffIsNeverDue) {
  Judged judged(EarlyStoppingPlan{});
  EXPECT_THAT(judged.after({1, 1, 1}), ElementsAre(false, false, false));
  EXPECT_EQ(judged.stale, 0);
}

TEST(EarlyStopping, GoesOnFromItsTwoNumbers) {
  int64_t stale = 1;
  std::optional<double> best = 0.5;
  EarlyStopping stopping({"accuracy", 2, 0, true}, stale, best);
  stopping.note(0.5);
  EXPECT_TRUE(stopping.due());
  EarlyStopping patient({"accuracy", 3, 0, true}, stale, best);
  EXPECT_FALSE(patient.due()) << "more patience on a relaunch continues the run";
}

// A learning rate of nothing: no evaluation improves on the first.
RunPlan stuck_plan(const std::string& output) {
  RunPlan plan = small_plan(output);
  plan.optimizer = {"sgd", {{"lr", 0.0}, {"momentum", 0.0}, {"nesterov", false}, {"weight_decay", 0.0}}};
  plan.evaluate = steps(2);
  plan.early_stopping = {"loss", 2, 0, false};
  return plan;
}

TEST(LoopStopsEarly, CompleteWithItsLastStateSaved) {
  TempDir directory;
  Rig rig(stuck_plan(directory.path()), alone());
  const LoopResult result = rig.run();
  EXPECT_EQ(result.reason, StopReason::kNone);
  EXPECT_EQ(result.step, 6) << "of 10";
  EXPECT_EQ(result.saved_step, 6);
  EXPECT_EQ(result.stopped_early, "stopped early: loss has not improved for 2 evaluations");
  EXPECT_THAT(steps_of(rig.records.of("eval")), ElementsAre(2, 4, 6));
  EXPECT_THAT(whys_of(rig.records.of("checkpoint")), ElementsAre("last"));
  EXPECT_TRUE(result.final_metrics.contains("accuracy"));
}

TEST(LoopStopsEarly, NotWhenTheRunEndsAnyway) {
  TempDir directory;
  RunPlan plan = stuck_plan(directory.path());
  plan.train.max_steps = 6;
  Rig rig(plan, alone());
  const LoopResult result = rig.run();
  EXPECT_EQ(result.step, 6);
  EXPECT_EQ(result.stopped_early, "");
}

TEST(LoopStopsEarly, SurvivesAResume) {
  TempDir directory;
  const RunPlan plan = stuck_plan(directory.path());
  {
    Rig broken(plan, alone());
    broken.runner->hooks().on_gradients = [&](int64_t step) {
      if (step == 5) broken.stop.raise(StopReason::kPreempted);
    };
    EXPECT_EQ(broken.run().reason, StopReason::kPreempted);
    EXPECT_EQ(broken.state.counters.stale_evaluations, 1);
  }
  Rig resumed(plan, alone());
  EXPECT_EQ(resumed.state.counters.stale_evaluations, 1);
  const LoopResult result = resumed.run();
  EXPECT_EQ(result.step, 6);
  EXPECT_NE(result.stopped_early, "");
  Rig again(plan, alone());
  EXPECT_EQ(again.state.counters.stale_evaluations, 2);
  EXPECT_EQ(again.run().step, 6) << "there is nothing left to do";
}

TEST(LoopStopsEarly, AtTheSameStepOnEveryRank) {
  TempDir directory;
  EXPECT_EQ(test::run_ranks(2,
                            [&](int, const CommOptions& options) {
                              Rig rig(stuck_plan(directory.path()), make_comms(options));
                              const LoopResult result = rig.run();
                              EXPECT_EQ(result.step, 6);
                              EXPECT_NE(result.stopped_early, "");
                            }),
            test::all_succeed(2));
}

}  // namespace
}  // namespace gputrain

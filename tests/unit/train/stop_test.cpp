// A stop, wherever it comes: while a rank waits for data, before the first step, during an evaluation.
#include <atomic>
#include <cmath>
#include <thread>

#include <gmock/gmock.h>

#include "unit/train/train_rig.h"

namespace gputrain {
namespace {

using testing::alone;
using ::testing::ElementsAre;
using testing::epochs;
using testing::Rig;
using testing::small_plan;
using testing::steps_of;
using testing::TempDir;
using testing::whys_of;

// A loader that has nothing more after some steps, until it is cancelled.
class DryLoader : public Loader {
 public:
  DryLoader(std::unique_ptr<Loader> loader, int64_t steps) : loader_(std::move(loader)), left_(steps) {}
  int64_t steps_per_epoch() const override { return loader_->steps_per_epoch(); }
  void seek(int64_t epoch, int64_t step) override { loader_->seek(epoch, step); }
  bool ready() override { return left_ > 0 && loader_->ready(); }
  int64_t next_samples() const override { return loader_->next_samples(); }
  void cancel() override { cancelled_ = true; }
  std::optional<std::vector<Batch>> next_step() override {
    if (left_-- > 0) return loader_->next_step();
    waits = true;
    while (!cancelled_) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return std::nullopt;
  }
  std::atomic<bool> waits{false};

 private:
  std::unique_ptr<Loader> loader_;
  int64_t left_;
  std::atomic<bool> cancelled_{false};
};

// Rank 1 runs dry before step 4; the stop comes while it waits, and reaches only `told`.
void stop_in_data_wait(int rank, const CommOptions& options, const std::string& output) {
  RunPlan plan = small_plan(output);
  const auto data = open_source(plan.data.train, "data.train");
  LoaderOptions loading;
  loading.shard = {rank, 2};
  loading.global_batch = 10;
  loading.seed = plan.seed;
  auto dry = std::make_unique<DryLoader>(make_loader(*data, {}, loading), rank == 1 ? 3 : 100);
  DryLoader* loader = dry.get();
  Rig rig(plan, make_comms(options), "auto", nullptr, std::move(dry));
  std::thread stopper([&] {
    while (rank == 1 && !loader->waits) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (rank == 1) {
      EXPECT_EQ(static_cast<Phase>(rig.page.phase.load()), Phase::kDataWait);
      EXPECT_EQ(rig.page.step, 4u);
      rig.stop.raise(StopReason::kUserStop);
    }
  });
  const LoopResult result = rig.run();
  stopper.join();
  EXPECT_EQ(result.reason, StopReason::kUserStop);
  EXPECT_EQ(result.step, 3);
  EXPECT_EQ(result.saved_step, 3);
  EXPECT_EQ(rig.state.counters.step, 3);
}

TEST(Stop, AStopReachesARankThatWaitsForData) {
  TempDir directory;
  EXPECT_EQ(test::run_ranks(
                2, [&](int rank, const CommOptions& options) { stop_in_data_wait(rank, options, directory.path()); },
                std::chrono::seconds(20)),
            test::all_succeed(2));
}

TEST(Stop, AStopBeforeTheFirstStepStartsNothingAndSavesNothing) {
  TempDir directory;
  Rig rig(small_plan(directory.path()), alone());
  rig.stop.raise(StopReason::kPreempted);
  const LoopResult result = rig.run();
  EXPECT_EQ(result.reason, StopReason::kPreempted);
  EXPECT_EQ(result.step, 0);
  EXPECT_EQ(result.saved_step, -1);
  EXPECT_TRUE(rig.records.records.empty());
  EXPECT_FALSE(real_file_system().exists(directory / "checkpoints"));
}

TEST(Stop, AStopWithNothingNewSavesNothing) {
  TempDir directory;
  RunPlan plan = small_plan(directory.path());
  plan.train.max_steps = 3;
  Rig(plan, alone()).run();
  plan.train.max_steps = 9;
  Rig rig(plan, alone());
  rig.stop.raise(StopReason::kPreempted);
  const LoopResult result = rig.run();
  EXPECT_EQ(result.step, 3);
  EXPECT_EQ(result.saved_step, 3);
  EXPECT_TRUE(rig.records.of("checkpoint").empty());
}

// Runs until the evaluation of `step`, in which the stop comes.
void stop_in_evaluation(const RunPlan& plan, int64_t step) {
  Rig rig(plan, alone());
  std::atomic<bool> done{false};
  std::thread stopper([&] {
    const auto evaluates = [&] {
      return static_cast<Phase>(rig.page.phase.load()) == Phase::kEvaluation &&
             rig.page.step == static_cast<uint64_t>(step);
    };
    while (!done && !evaluates()) std::this_thread::yield();
    rig.stop.raise(StopReason::kPreempted);
  });
  Hold hold;
  hold.phase = Phase::kEvaluation;
  hold.step = static_cast<uint64_t>(step);
  PhaseMarker holding(&rig.page, rig.stop, hold);
  EvaluateOptions options;
  options.loader = rig.loader_options();
  rig.evaluator = std::make_unique<Evaluator>(
      Evaluator::Parts{*rig.state.model, *rig.objective, nullptr, *rig.val, rig.vote, holding, rig.stop}, options);
  const LoopResult result = rig.run();
  done = true;
  stopper.join();
  EXPECT_EQ(result.reason, StopReason::kPreempted);
  EXPECT_EQ(result.step, step);
  EXPECT_EQ(result.saved_step, step);
  EXPECT_EQ(whys_of(rig.records.of("checkpoint")).back(), "stop");
}

// The state is saved, and the next attempt evaluates it first.
TEST(Stop, AnInterruptedEvaluationIsMadeUpFor) {
  TempDir directory;
  RunPlan plan = small_plan(directory.path());
  plan.evaluate = epochs(1);
  stop_in_evaluation(plan, 5);
  Rig rig(plan, alone());
  rig.run();
  EXPECT_THAT(steps_of(rig.records.of("eval")), ElementsAre(5, 10));
  EXPECT_THAT(steps_of(rig.records.of("step")), ElementsAre(6, 7, 8, 9, 10));
}

TEST(Stop, AnInterruptedLastEvaluationIsMadeUpForOnce) {
  TempDir directory;
  RunPlan plan = small_plan(directory.path());
  plan.evaluate = epochs(1);
  plan.checkpoint.keep_best = "loss";
  plan.checkpoint.best_is_larger = false;
  stop_in_evaluation(plan, 10);
  {
    Rig rig(plan, alone());
    EXPECT_EQ(rig.run().reason, StopReason::kNone);
    EXPECT_THAT(steps_of(rig.records.of("eval")), ElementsAre(10));
    EXPECT_THAT(steps_of(rig.records.of("checkpoint")), ElementsAre(10));
  }
  Rig again(plan, alone());
  EXPECT_EQ(again.state.counters.evaluated_at, 10);
  EXPECT_LT(*again.state.counters.best, INFINITY);
  EXPECT_EQ(again.run().reason, StopReason::kNone);
  EXPECT_TRUE(again.records.records.empty());
}

}  // namespace
}  // namespace gputrain

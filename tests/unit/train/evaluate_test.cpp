#include <cmath>

#include <gmock/gmock.h>

#include "unit/train/train_rig.h"

namespace gputrain {
namespace {

using testing::alone;
using testing::Rig;
using testing::small_plan;
using testing::TempDir;

// All 21 samples in one batch, without the evaluator.
Metrics direct(const Rig& rig) {
  LoaderOptions options;
  options.global_batch = options.micro_batch = 21;
  options.workers = 0;
  const auto loader = make_eval_loader(*rig.val, {}, options);
  const Batch batch = loader->next_step()->front();
  rig.state.model->eval();
  const at::NoGradGuard no_grad;
  const at::Tensor sums = rig.objective->sums(rig.state.model->forward(batch.inputs), batch.targets);
  rig.state.model->train();
  return rig.objective->metrics(sums);
}

void evaluate_on(const CommOptions& options) {
  TempDir directory;
  RunPlan plan = small_plan(directory.path());
  plan.model.args["dropout"] = 0.5;
  Rig rig(plan, make_comms(options));
  const Metrics expected = direct(rig);
  at::manual_seed(99);
  const at::Tensor next = at::rand({4});
  at::manual_seed(99);
  const std::optional<Metrics> metrics = rig.evaluator->run(0);
  EXPECT_TRUE(at::equal(at::rand({4}), next)) << "randomness is untouched";
  EXPECT_TRUE(rig.state.model->is_training()) << "the mode is restored";
  if (!metrics) throw std::runtime_error("stopped");
  EXPECT_EQ(metrics->samples, 21);
  EXPECT_EQ(metrics->at("accuracy"), expected.at("accuracy"));
  EXPECT_NEAR(metrics->at("loss"), expected.at("loss"), 1e-6);
  EXPECT_EQ(static_cast<Phase>(rig.page.phase.load()), Phase::kEvaluation);
}

TEST(Evaluate, EverySampleOnceOnAnyNumberOfRanks) {
  for (const int world : {1, 2, 3, 8}) {
    EXPECT_EQ(test::run_ranks(world, [](int, const CommOptions& options) { evaluate_on(options); }),
              test::all_succeed(world))
        << world;
  }
}

void stop_on_rank_1(int rank, const CommOptions& options) {
  TempDir directory;
  Rig rig(small_plan(directory.path()), make_comms(options));
  if (rank == 1) rig.stop.raise(StopReason::kPreempted);
  EXPECT_FALSE(rig.evaluator->run(3));
  EXPECT_TRUE(rig.state.model->is_training());
}

TEST(Evaluate, AStopOnOneRankEndsItOnAll) {
  EXPECT_EQ(test::run_ranks(2, stop_on_rank_1, std::chrono::seconds(20)), test::all_succeed(2));
}

}  // namespace
}  // namespace gputrain

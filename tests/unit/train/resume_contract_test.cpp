// Traps 19, 32, 44 and 45: what a run that was cut finds again, and what counts as best.
#include <atomic>
#include <cmath>

#include <gmock/gmock.h>

#include "ckpt/layout.h"
#include "unit/train/train_rig.h"

namespace gputrain {
namespace {

using testing::alone;
using testing::Rig;
using testing::small_plan;
using testing::TempDir;

// With a warm-up of 4 steps, cut before, at and after its end.
TEST(Trap19ScheduleLostOnResume, TheRatesGoOnInsideTheWarmupAndAfterIt) {
  for (const int64_t cut : {1, 2, 3, 4, 5}) {
    TempDir directory;
    RunPlan plan = small_plan(directory.path());
    plan.schedule.warmup = {4, Length::Unit::kSteps};
    std::vector<double> rates;
    const auto run = [&](Rig& rig) {
      const LoopResult result = rig.run();
      for (const Json& record : rig.records.of("step")) rates.push_back(record.at("lr").get<double>());
      return result.step;
    };
    Rig first(plan, alone());
    first.runner->hooks().on_gradients = [&](int64_t step) {
      if (step == cut) first.stop.raise(StopReason::kPreempted);
    };
    EXPECT_LE(run(first), cut + 1);
    Rig second(plan, alone());
    EXPECT_EQ(run(second), 10);
    const Schedule schedule(plan.schedule, 10, 5);
    ASSERT_EQ(rates.size(), 10u) << cut;
    for (size_t i = 0; i < rates.size(); ++i)
      EXPECT_EQ(rates[i], 1e-2 * schedule.factor(static_cast<int64_t>(i))) << "cut at " << cut << ", step " << i + 1;
  }
}

TEST(Trap32StateNotInTheCheckpoint, AResumeEndsWithTheSameBits) {
  for (const auto& [optimizer, args] :
       {std::pair<std::string, Json>{"adamw", {{"lr", 1e-2}, {"weight_decay", 0.05}}},
        {"sgd", {{"lr", 1e-2}, {"momentum", 0.9}, {"nesterov", true}, {"weight_decay", 0.05}}}}) {
    TempDir directory;
    RunPlan plan = small_plan(directory / "straight");
    plan.optimizer = {optimizer, args};
    plan.schedule.name = "constant";  // so that the shorter run has the same rates
    plan.train.ema_decay = 0.8;
    plan.parameters.decay_norm_and_bias = false;
    Rig straight(plan, alone());
    straight.run();
    plan.output = directory / "cut";
    plan.train.max_steps = 6;
    Rig first(plan, alone());
    first.run();
    plan.train.max_steps.reset();
    Rig second(plan, alone());
    EXPECT_EQ(second.hash(), first.hash()) << optimizer;
    second.run();
    EXPECT_EQ(second.hash(), straight.hash()) << optimizer;
  }
}

// As if first weights had been loaded: a frozen parameter is nowhere else.
TEST(Trap32StateNotInTheCheckpoint, FrozenParametersAreInIt) {
  TempDir directory;
  RunPlan plan = small_plan(directory.path());
  plan.model.freeze = {"fc1.*"};
  const auto frozen_of = [](const Rig& rig) { return rig.state.model->named_parameters()["fc1.weight"].detach(); };
  Rig first(plan, alone());
  frozen_of(first).fill_(0.125);
  first.run();
  Rig second(plan, alone());
  EXPECT_EQ(second.state.counters.step, 10);
  EXPECT_TRUE(frozen_of(second).eq(0.125).all().item<bool>());
}

// A save happens between two steps: what it holds is the state after one of them, whole.
TEST(Trap44CheckpointDuringAnUpdate, EveryOneLoadsAsTheStateOfItsStep) {
  TempDir directory;
  RunPlan plan = small_plan(directory.path());
  plan.checkpoint.every = testing::steps(1);
  std::vector<std::string> after;  // by step, beginning with 0
  Rig rig(plan, alone());
  rig.runner->hooks().on_gradients = [&](int64_t) { after.push_back(rig.hash()); };
  rig.run();
  after.push_back(rig.hash());
  ASSERT_EQ(after.size(), 11u);
  for (int64_t step = 1; step <= 10; ++step) {
    RunPlan other = plan;
    other.output = directory / "other";
    Rig loaded(other, alone());
    restore(loaded.state, load_checkpoint(*rig.fs, plan.output + "/checkpoints/" + step_name(step)));
    EXPECT_EQ(loaded.state.counters.step, step);
    EXPECT_EQ(loaded.hash(), after[static_cast<size_t>(step)]) << step;
  }
}

// Validation data that are NaN while `bad` is set.
class FadingSource : public Source {
 public:
  FadingSource(std::unique_ptr<Source> source, const std::atomic<bool>& bad) : source_(std::move(source)), bad_(bad) {}
  int64_t size() const override { return source_->size(); }
  std::vector<int64_t> sample_shape() const override { return source_->sample_shape(); }
  at::ScalarType sample_type() const override { return source_->sample_type(); }
  at::ScalarType target_type() const override { return source_->target_type(); }
  std::vector<int64_t> target_shape() const override { return source_->target_shape(); }
  void read(int64_t id, void* sample, void* target) const override {
    source_->read(id, sample, target);
    if (bad_) static_cast<float*>(sample)[0] = std::nanf("");
  }
  Json fingerprint() const override { return source_->fingerprint(); }

 private:
  std::unique_ptr<Source> source_;
  const std::atomic<bool>& bad_;
};

// NaN after steps 1 and 4: neither may be best, nor keep what is worse or better from being judged by the best so far.
void check_best(bool larger) {
  TempDir directory;
  RunPlan plan = small_plan(directory.path());
  plan.evaluate = testing::steps(1);
  plan.checkpoint.keep_best = "loss";
  plan.checkpoint.best_is_larger = larger;
  plan.train.max_steps = 6;
  Rig rig(plan, alone());
  std::atomic<bool> bad = false;
  const FadingSource val(open_source(*plan.data.val, "data.val"), bad);
  rig.evaluator = std::make_unique<Evaluator>(
      Evaluator::Parts{*rig.state.model, *rig.objective, nullptr, val, rig.vote, rig.marker, rig.stop},
      EvaluateOptions{.transforms = {}, .loader = rig.loader_options()});
  rig.runner->hooks().on_gradients = [&](int64_t step) { bad = step == 1 || step == 4; };
  rig.run();
  std::optional<double> best;
  std::vector<int64_t> saved;
  for (const Json& record : rig.records.of("eval")) {
    const auto step = record.at("step").get<int64_t>();
    const bool is_nan = record.at("loss") == "nan";
    EXPECT_EQ(is_nan, step == 1 || step == 4);
    if (!is_nan) {
      const auto loss = record.at("loss").get<double>();
      const bool improves = !best || (larger ? loss > *best : loss < *best);
      if (improves) best = loss;
      if (improves || step == 6) saved.push_back(step);
    }
  }
  EXPECT_EQ(testing::steps_of(rig.records.of("checkpoint")), saved);
  EXPECT_EQ(rig.state.counters.best, best);
}

TEST(Trap45NanCountedAsBest, NeitherSavedNorABar) {
  check_best(/*larger=*/false);
  check_best(/*larger=*/true);
}

}  // namespace
}  // namespace gputrain

// Traps 8, 9, 11 to 14 and 31 of mixed precision, through the step and the loop. Gradients are put in place by the hook
// that runs between the reduction and the update, so that expectations are exact.
#include <cmath>
#include <functional>

#include <gmock/gmock.h>

#include "support/golden.h"
#include "unit/train/train_rig.h"

namespace gputrain {
namespace {

using testing::alone;
using testing::AlteredSource;
using ::testing::ElementsAre;
using testing::Rig;
using testing::small_plan;
using testing::TempDir;

RunPlan fp16_plan(const std::string& output) {
  RunPlan plan = small_plan(output);
  plan.train.precision = Precision::kFp16;
  return plan;
}

Named plain_sgd(double lr) {
  return {"sgd", {{"lr", lr}, {"momentum", 0.0}, {"nesterov", false}, {"weight_decay", 0.0}}};
}

void overflow(const Rig& rig) {
  rig.state.parameters()[0].grad().view(-1)[0].fill_(INFINITY);
}

// The same small gradients in every step, scaled as a backward pass would have left them.
void put_gradients(const Rig& rig) {
  const double scale = rig.state.scaler.enabled() ? rig.state.scaler.current() : 1;
  int64_t salt = 0;
  for (const at::Tensor& parameter : rig.state.parameters())
    parameter.grad().copy_(testing::ramp(parameter.sizes(), at::kFloat, ++salt) * 0x1p-8 * scale);
}

// One step over the first window; the counters follow.
StepResult one_step(Rig& rig) {
  rig.loader->seek(0, 0);
  const StepResult result = rig.runner->run(*rig.loader->next_step(), 10);
  rig.state.counters.finish_step(10, 46, result.skipped);
  return result;
}

std::vector<at::Tensor> copies(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> out;
  for (const at::Tensor& tensor : tensors) out.push_back(tensor.detach().clone());
  return out;
}

TEST(Trap08ClipBeforeUnscale, TheUpdateIsThatOfUnscaledGradients) {
  const auto update = [](Precision precision) {
    TempDir directory;
    RunPlan plan = small_plan(directory.path());
    plan.train.precision = precision;
    plan.train.clip_grad_norm = 1;
    plan.optimizer = plain_sgd(1);
    plan.schedule.name = "constant";
    Rig rig(plan, alone());
    const std::vector<at::Tensor> before = copies(rig.state.parameters());
    rig.runner->hooks().on_gradients = [&](int64_t) {
      const double scale = rig.state.scaler.enabled() ? rig.state.scaler.current() : 1;
      for (const at::Tensor& parameter : rig.state.parameters()) parameter.grad().zero_();
      rig.state.parameters()[0].grad().view(-1).narrow(0, 0, 3).copy_(at::tensor({2.0, -1.0, 2.0}) * scale);
    };
    EXPECT_EQ(one_step(rig).grad_norm, 3) << "before clipping, after unscaling";
    return before[0].sub(rig.state.parameters()[0].detach()).flatten().narrow(0, 0, 3);
  };
  const at::Tensor scaled = update(Precision::kFp16);
  EXPECT_TRUE(at::equal(scaled, update(Precision::kFp32)));
  // One update, not two, of norm 1.
  EXPECT_LT((scaled - at::tensor({2.0, -1.0, 2.0}) / 3).abs().max().item<double>(), 1e-6);
}

// Notes of which types a model's outputs are.
class OutputTypes : public Model {
 public:
  explicit OutputTypes(std::shared_ptr<Model> model) : model_(std::move(model)) {}
  at::Tensor forward(const at::Tensor& inputs) override {
    at::Tensor outputs = model_->forward(inputs);
    type = outputs.scalar_type();
    return outputs;
  }
  at::ScalarType type = at::kInt;

 private:
  std::shared_ptr<Model> model_;
};

// Notes of which type the loss is.
class LossType : public Objective {
 public:
  explicit LossType(const Objective& objective) : objective_(objective) {}
  void check(const at::Tensor& outputs, const at::Tensor& targets, const std::vector<int64_t>& ids) const override {
    objective_.check(outputs, targets, ids);
  }
  at::Tensor loss_sum(const at::Tensor& outputs, const at::Tensor& targets) const override {
    at::Tensor loss = objective_.loss_sum(outputs, targets);
    type = loss.scalar_type();
    return loss;
  }
  at::Tensor sums(const at::Tensor& outputs, const at::Tensor& targets) const override {
    return objective_.sums(outputs, targets);
  }
  int64_t sum_count() const override { return objective_.sum_count(); }
  Metrics metrics(const at::Tensor& sums) const override { return objective_.metrics(sums); }
  mutable at::ScalarType type = at::kInt;

 private:
  const Objective& objective_;
};

TEST(Trap09ForwardOutsideAutocast, OutputsAreHalfAndTheLossIsFloat) {
  for (const auto& [precision, half] :
       {std::pair{Precision::kBf16, at::kBFloat16}, {Precision::kFp16, at::kHalf}, {Precision::kFp32, at::kFloat}}) {
    TempDir directory;
    RunPlan plan = small_plan(directory.path());
    plan.train.precision = precision;
    Rig rig(plan, alone());
    const auto outputs = std::make_shared<OutputTypes>(rig.state.model);
    rig.state.model = outputs;
    const LossType loss(*rig.objective);
    StepRunner runner({rig.state, loss, *rig.reducer, rig.vote, *rig.schedule, rig.marker}, rig.step_options(), {});
    runner.run(*rig.loader->next_step(), 10);
    EXPECT_EQ(outputs->type, half);
    EXPECT_EQ(loss.type, at::kFloat);
    for (const at::Tensor& parameter : rig.state.parameters()) EXPECT_EQ(parameter.grad().scalar_type(), at::kFloat);
  }
}

// A scale that grows after 6 good steps in a row, so that a run of ten sees it.
void grow_soon(Rig& rig) {
  const Json state = rig.state.scaler.state();
  rig.state.scaler = GradScaler(true, at::kCPU, {.growth_interval = 6});
  rig.state.scaler.load(state);
}

void run_over_growth(Rig& rig) {
  grow_soon(rig);
  rig.runner->hooks().on_gradients = [&rig](int64_t step) {
    if (step == 3) overflow(rig);
  };
  rig.run();
}

void cut_before_growth(int, const CommOptions& options) {
  const Comms comms = make_comms(options);
  TempDir directory;
  RunPlan plan = fp16_plan(directory / "straight");
  plan.schedule.name = "constant";
  Rig straight(plan, comms);
  run_over_growth(straight);
  EXPECT_EQ(straight.state.scaler.state(), Json({{"scale", 65536.0}, {"growth_tracker", 1}}))
      << "halved in step 3, doubled in step 9";
  plan.output = directory / "cut";
  plan.train.max_steps = 5;
  Rig first(plan, comms);
  run_over_growth(first);
  plan.train.max_steps.reset();
  Rig second(plan, comms);
  EXPECT_EQ(second.state.scaler.state(), Json({{"scale", 32768.0}, {"growth_tracker", 2}}));
  run_over_growth(second);
  EXPECT_EQ(second.state.scaler.state(), straight.state.scaler.state());
  EXPECT_EQ(second.hash(), straight.hash());
  EXPECT_EQ(second.state.counters, straight.state.counters);
}

TEST(Trap11ScalerNotSaved, AResumeGrowsTheScaleAtTheSameStep) {
  for (const int world : {1, 2}) EXPECT_EQ(test::run_ranks(world, cut_before_growth), test::all_succeed(world));
}

std::vector<double> rates(const Rig& rig) {
  std::vector<double> found;
  for (const Json& record : rig.records.of("step")) found.push_back(record.at("lr").get<double>());
  return found;
}

TEST(Trap12ScheduleOnSkippedStep, TheRateWaits) {
  TempDir directory;
  RunPlan plan = fp16_plan(directory / "good");
  plan.schedule.warmup = {3, Length::Unit::kSteps};
  Rig good(plan, alone());
  good.run();
  const std::vector<double> table = rates(good);
  ASSERT_EQ(table.size(), 10u);
  EXPECT_EQ(good.state.counters.skipped, 0);
  plan.output = directory / "skipping";
  Rig skipping(plan, alone());
  skipping.runner->hooks().on_gradients = [&](int64_t step) {
    if (step == 1 || step == 4) overflow(skipping);
  };
  skipping.run();
  EXPECT_THAT(rates(skipping), ElementsAre(table[0], table[0], table[1], table[2], table[2], table[3], table[4],
                                           table[5], table[6], table[7]));
  EXPECT_EQ(skipping.state.counters.updates, 8);
}

TEST(Trap13OptimizerOnSkippedStep, MomentsAndCounterAreThoseOfARunWithoutIt) {
  for (const char* name : {"adamw", "lamb"}) {
    const auto hash_after = [&](const std::vector<bool>& skipped) {
      TempDir directory;
      RunPlan plan = fp16_plan(directory.path());
      plan.optimizer.name = name;
      Rig rig(plan, alone());
      for (const bool skip : skipped) {
        rig.runner->hooks().on_gradients = [&](int64_t) { skip ? overflow(rig) : put_gradients(rig); };
        EXPECT_EQ(one_step(rig).skipped, skip);
      }
      return rig.hash();
    };
    EXPECT_EQ(hash_after({true, false, true, true, false}), hash_after({false, false})) << name;
    EXPECT_NE(hash_after({false}), hash_after({false, false})) << name;
  }
}

// Rank 1's share of step 2 has it, and no other rank's any.
void overflow_on_rank_1(int, const CommOptions& options) {
  TempDir directory;
  RunPlan plan = fp16_plan(directory.path());
  plan.train.epochs = 1;
  const int64_t loud = SampleOrder(46, plan.seed, 0)[10 + 7];
  Rig rig(plan, make_comms(options), "auto",
          std::make_unique<AlteredSource>(open_source(plan.data.train, "data.train"), loud, 1e6F));
  EXPECT_EQ(rig.run().step, 5);
  EXPECT_EQ(rig.state.counters.skipped, 1);
  EXPECT_EQ(rig.state.counters.updates, 4);
  EXPECT_EQ(rig.state.scaler.state(), Json({{"scale", 32768.0}, {"growth_tracker", 3}}));
  EXPECT_EQ(rig.comms.control->broadcast_bytes(rig.hash(), 0), rig.hash()) << "the ranks differ";
}

TEST(Trap14SkipDecidedPerRank, AnInfinityOnOneRankSkipsOnAll) {
  EXPECT_EQ(test::run_ranks(2, overflow_on_rank_1, std::chrono::seconds(20)), test::all_succeed(2));
}

TEST(Trap31EmaOnSkippedStep, IsTheClosedFormOfTheUpdatesMade) {
  TempDir directory;
  RunPlan plan = fp16_plan(directory.path());
  plan.train.ema_decay = 0.75;
  plan.train.micro_batch = 3;  // four micro-batches, one update
  Rig rig(plan, alone());
  std::vector<at::Tensor> expected = copies(rig.state.parameters());
  const auto averages = [&] {
    std::vector<at::Tensor> found;
    for (const auto& [name, average] : rig.state.ema->state()) found.push_back(average);
    return found;
  };
  for (const bool skip : {false, false, true, true, false}) {
    rig.runner->hooks().on_gradients = [&](int64_t) { skip ? overflow(rig) : put_gradients(rig); };
    one_step(rig);
    for (size_t i = 0; i < expected.size(); ++i) {
      if (!skip) expected[i] = expected[i] * 0.75 + rig.state.parameters()[i].detach() * 0.25;
      EXPECT_LT(testing::relative_difference(averages()[i], expected[i]), 1e-6) << i;
    }
  }
}

}  // namespace
}  // namespace gputrain

#include <cmath>

#include <gmock/gmock.h>

#include "train/loss.h"
#include "unit/train/train_rig.h"
#include "util/blamed_error.h"

namespace gputrain {
namespace {

using testing::alone;
using testing::AlteredSource;
using ::testing::HasSubstr;
using testing::Rig;
using testing::small_plan;
using testing::TempDir;

RunPlan double_plan(const TempDir& directory) {
  RunPlan plan = small_plan(directory.path());
  plan.train.precision = Precision::kFp64;
  plan.train.clip_grad_norm = 0;
  return plan;
}

// The whole window as one process with the full batch sees it: mean loss and gradients in double.
struct Reference {
  double loss = 0;
  std::vector<at::Tensor> gradients;
};
Reference full_batch(const RunPlan& plan, const Source& source, int64_t window) {
  const auto model = make_model(plan.model, plan.seed, at::kDouble);
  LoaderOptions options;
  options.global_batch = plan.train.global_batch;
  options.seed = plan.seed;
  options.workers = 0;
  options.float_type = at::kDouble;
  const auto loader = make_loader(source, {}, options);
  loader->seek(0, window);
  const Batch batch = loader->next_step()->front();
  const at::Tensor loss = at::cross_entropy_loss(model->forward(batch.inputs), batch.targets);
  loss.backward();
  Reference reference{loss.item<double>(), {}};
  for (const auto& [name, parameter] : named_parameters_of(*model))
    reference.gradients.push_back(parameter.grad().clone());
  return reference;
}

double relative(const at::Tensor& a, const at::Tensor& b) {
  return ((a - b).abs().max() / b.abs().max()).item<double>();
}

struct Cut {
  int world;
  int64_t micro_batch;
  std::string reducer;
};

// Windows of 10 samples and the tail of 6 (or of 2, on 3 ranks: one is empty), at every cut: the gradient is the full
// batch's.
void check_gradients(const Cut& cut, int64_t samples, int64_t window, const CommOptions& options) {
  TempDir directory;
  RunPlan plan = double_plan(directory);
  plan.train.micro_batch = cut.micro_batch;
  plan.reducer = cut.reducer;
  plan.data.train.args["samples"] = samples;
  Rig rig(plan, make_comms(options));
  const Reference reference = full_batch(plan, *rig.train, window);
  rig.loader->seek(0, window);
  const int64_t count = window_of(samples, plan.train.global_batch, window).size();
  for (int repeat = 0; repeat < 2; ++repeat) {  // the second time through rebuilt buckets
    rig.loader->seek(0, window);
    std::vector<at::Tensor> before;
    for (const at::Tensor& parameter : rig.state.parameters()) before.push_back(parameter.detach().clone());
    int checked = 0;
    rig.runner->hooks().on_gradients = [&](int64_t) {
      for (size_t i = 0; i < before.size(); ++i) {
        EXPECT_LT(relative(rig.state.parameters()[i].grad(), reference.gradients[i]), 1e-12) << i;
        ++checked;
      }
    };
    const StepResult result = rig.runner->run(*rig.loader->next_step(), count);
    EXPECT_EQ(checked, 6);
    EXPECT_NEAR(result.loss, reference.loss, 1e-12 * reference.loss);
    EXPECT_NEAR(result.grad_norm, std::sqrt([&] {
                  double squares = 0;
                  for (const at::Tensor& gradient : reference.gradients)
                    squares += gradient.square().sum().item<double>();
                  return squares;
                }()),
                1e-12);
    at::NoGradGuard no_grad;
    for (size_t i = 0; i < before.size(); ++i) {
      at::Tensor parameter = rig.state.parameters()[i];
      EXPECT_FALSE(at::equal(parameter, before[i])) << "the update did nothing to parameter " << i;
      parameter.copy_(before[i]);
    }
  }
}

TEST(Step, GradientsEqualOneProcessWithTheFullBatch) {
  for (const Cut& cut : {Cut{1, 0, "c10d"}, Cut{1, 3, "flat"}, Cut{2, 0, "c10d"}, Cut{2, 2, "c10d"}, Cut{2, 2, "flat"},
                         Cut{3, 1, "c10d"}, Cut{3, 2, "flat"}}) {
    for (const auto& [samples, window] : {std::pair<int64_t, int64_t>{46, 0}, {46, 4}, {42, 4}, {41, 4}}) {
      SCOPED_TRACE("world " + std::to_string(cut.world) + ", micro_batch " + std::to_string(cut.micro_batch) + ", " +
                   cut.reducer + ", samples " + std::to_string(samples) + ", window " + std::to_string(window));
      EXPECT_EQ(
          test::run_ranks(cut.world,
                          [&](int, const CommOptions& options) { check_gradients(cut, samples, window, options); }),
          test::all_succeed(cut.world));
    }
  }
}

TEST(Step, ClipsTheAveragedGradient) {
  TempDir directory;
  RunPlan plan = double_plan(directory);
  plan.train.clip_grad_norm = 1e-3;
  plan.optimizer = {"sgd", {{"lr", 1.0}, {"momentum", 0.0}, {"nesterov", false}, {"weight_decay", 0.0}}};
  plan.schedule.name = "constant";
  Rig rig(plan, alone());
  std::vector<at::Tensor> before;
  for (const at::Tensor& parameter : rig.state.parameters()) before.push_back(parameter.detach().clone());
  const StepResult result = rig.runner->run(*rig.loader->next_step(), 10);
  EXPECT_GT(result.grad_norm, 1e-2) << "the norm before clipping";
  double squares = 0;
  for (size_t i = 0; i < before.size(); ++i) {
    squares += (rig.state.parameters()[i].detach() - before[i]).square().sum().item<double>();
  }
  EXPECT_NEAR(std::sqrt(squares), 1e-3, 1e-7) << "lr 1: the update is the clipped gradient";
}

// Dropout differs by rank and step, and is the same each time.
TEST(Step, DropoutIsAFunctionOfSeedRankAndStep) {
  TempDir directory;
  RunPlan plan = small_plan(directory.path());
  plan.model.args["dropout"] = 0.5;
  const auto loss_of = [&](uint64_t seed, int64_t finished) {
    RunPlan other = plan;
    Rig rig(other, alone());
    rig.state.counters.step = finished;
    StepOptions options;
    options.seed = seed;
    StepRunner runner({rig.state, *rig.objective, *rig.reducer, rig.vote, *rig.schedule, rig.marker}, options, {});
    at::manual_seed(finished + 100);  // whatever was drawn before
    return runner.run(*rig.loader->next_step(), 10).loss;
  };
  EXPECT_EQ(loss_of(1, 0), loss_of(1, 0));
  EXPECT_NE(loss_of(1, 0), loss_of(1, 1));
  EXPECT_NE(loss_of(1, 0), loss_of(2, 0));
}

// A sample of rank 1's share of step 2 is NaN.
void run_into_nan(int rank, const CommOptions& options) {
  TempDir directory;
  RunPlan plan = small_plan(directory.path());
  const int64_t bad = SampleOrder(46, plan.seed, 0)[10 + 7];
  Rig rig(plan, make_comms(options), "auto",
          std::make_unique<AlteredSource>(open_source(plan.data.train, "data.train"), bad, std::nanf("")));
  std::string after_first;
  rig.runner->hooks().on_gradients = [&](int64_t step) {
    if (step == 2) after_first = rig.hash();
  };
  try {
    rig.run();
    ADD_FAILURE() << "rank " << rank << " went on";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind, ErrorKind::kNonFinite);
    EXPECT_THAT(error.message, HasSubstr("the loss is not finite at step 2 on rank 1"));
    EXPECT_THAT(error.message, HasSubstr("; the input of sample " + std::to_string(bad) + " is not finite"));
    const auto* blamed = dynamic_cast<const BlamedError*>(&error);
    ASSERT_NE(blamed, nullptr);
    EXPECT_EQ(blamed->culprit, 1) << "whoever reports it first";
  }
  EXPECT_EQ(rig.state.counters.step, 1);
  EXPECT_EQ(rig.hash(), after_first) << "nothing was updated";
}

TEST(Step, NanOnOneRankStopsAllBeforeTheUpdate) {
  EXPECT_EQ(test::run_ranks(2, run_into_nan, std::chrono::seconds(20)), test::all_succeed(2));
}

TEST(Step, NanGradientStopsBeforeTheUpdateToo) {
  TempDir directory;
  Rig rig(small_plan(directory.path()), alone());
  const std::string before = rig.hash();
  rig.runner->hooks().on_gradients = [&](int64_t) {
    at::NoGradGuard no_grad;
    rig.state.parameters()[2].grad().fill_(INFINITY);
  };
  try {
    rig.runner->run(*rig.loader->next_step(), 10);
    FAIL() << "went on";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind, ErrorKind::kNonFinite);
    EXPECT_THAT(error.message, HasSubstr("the gradient, averaged over all ranks, is not finite at step 1"));
  }
  EXPECT_EQ(rig.hash(), before);
}

// fp16: a gradient that overflows skips the update: schedule, Adam's counter and parameters stand still, the scale
// halves.
void skip_on_both_ranks(int, const CommOptions& options) {
  TempDir directory;
  RunPlan plan = small_plan(directory.path());
  plan.train.precision = Precision::kFp16;
  Rig rig(plan, make_comms(options));
  const std::string before = rig.hash();
  rig.runner->hooks().on_gradients = [&](int64_t) {
    at::NoGradGuard no_grad;
    rig.state.parameters()[0].grad().view(-1)[0] = INFINITY;
  };
  const StepResult skipped = rig.runner->run(*rig.loader->next_step(), 10);
  EXPECT_TRUE(skipped.skipped);
  EXPECT_EQ(rig.hash(), before);
  EXPECT_EQ(rig.state.scaler.current(), 32768);
  rig.state.counters.finish_step(10, 46, skipped.skipped);
  EXPECT_EQ(rig.state.counters.step, 1);
  EXPECT_EQ(rig.state.counters.updates, 0);
  EXPECT_EQ(rig.state.counters.skipped, 1);
  rig.runner->hooks().on_gradients = {};
  const StepResult good = rig.runner->run(*rig.loader->next_step(), 10);
  EXPECT_FALSE(good.skipped);
  EXPECT_EQ(good.lr, skipped.lr) << "the schedule counts updates";
  EXPECT_NE(rig.hash(), before);
}

TEST(Step, LossScalerSkipsOnAllRanks) {
  EXPECT_EQ(test::run_ranks(2, skip_on_both_ranks, std::chrono::seconds(20)), test::all_succeed(2));
}

// Every gradient is NaN: 65536 is halved 16 times, and at 1 no scale is to blame any more.
void run_out_of_scale(int rank, const CommOptions& options) {
  TempDir directory;
  RunPlan plan = small_plan(directory.path());
  plan.train.precision = Precision::kFp16;
  plan.train.epochs = 10;
  const int64_t bad = SampleOrder(46, plan.seed, 3)[10 + 7];  // in step 17, on rank 1
  Rig rig(plan, make_comms(options), "auto",
          std::make_unique<AlteredSource>(open_source(plan.data.train, "data.train"), bad, std::nanf("")));
  rig.runner->hooks().on_gradients = [&](int64_t) {
    at::NoGradGuard no_grad;
    rig.state.parameters()[0].grad().view(-1)[0] = NAN;
  };
  try {
    rig.run();
    ADD_FAILURE() << "rank " << rank << " went on";
  } catch (const BlamedError& error) {
    EXPECT_EQ(error.kind, ErrorKind::kNonFinite);
    EXPECT_THAT(error.message,
                HasSubstr("the gradient is not finite at step 17 even with a loss scale of 1 (16 steps "
                          "skipped before it, 0 updates made); the loss is not finite at step 17 on rank 1"));
    EXPECT_EQ(error.culprit, 1);
  }
  EXPECT_EQ(rig.state.counters.step, 16);
  EXPECT_EQ(rig.state.scaler.current(), 1);
}

TEST(Step, AScaleThatCannotFallAnyFurtherEndsTheRun) {
  EXPECT_EQ(test::run_ranks(2, run_out_of_scale, std::chrono::seconds(60)), test::all_succeed(2));
}

}  // namespace
}  // namespace gputrain

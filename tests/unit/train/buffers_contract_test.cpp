// Traps 20, 21, 31 and 47: a model with BatchNorm, whose buffers each rank moves by its own samples.
#include <gmock/gmock.h>

#include "support/golden.h"
#include "unit/train/train_rig.h"

namespace gputrain {
namespace {

using testing::Rig;
using testing::small_plan;
using testing::TempDir;

// A tiny U-Net with BatchNorm over 20 images of 4 x 4, 5 steps of 4.
RunPlan batch_norm_plan(const std::string& output) {
  RunPlan plan = small_plan(output);
  plan.task = Task::kSegmentation;
  plan.model.name = "unet2d";
  plan.model.args = {{"in_channels", 1}, {"num_classes", 2}, {"width", 2}, {"levels", 1}, {"norm", "batch"}};
  plan.train.global_batch = 4;
  plan.train.epochs = 1;
  return plan;
}

std::unique_ptr<Source> images(int64_t samples) {
  return open_source(
      {"synthetic", {{"samples", samples}, {"shape", {1, 4, 4}}, {"num_classes", 2}, {"targets", "mask"}}},
      "data.train", {.task = Task::kSegmentation, .classes = 2, .ignore_index = {}});
}

bool equal_on_all_ranks(const Rig& rig, const std::vector<at::Tensor>& tensors) {
  const std::string mine = hash_of(tensors);
  at::Tensor same = at::full({1}, rig.comms.control->broadcast_bytes(mine, 0) == mine ? 1.0 : 0.0, at::kDouble);
  rig.comms.control->all_reduce_sum(same);
  return same.item<double>() == rig.world;
}

// The vote of a step travels while its hook runs, on the same group: what is compared is collected and compared later.
void train_and_save(int, const CommOptions& options) {
  TempDir directory;
  Rig rig(batch_norm_plan(directory.path()), make_comms(options), "auto", images(20));
  ASSERT_FALSE(rig.state.buffers().empty());
  std::vector<at::Tensor> in_training;
  rig.runner->hooks().on_gradients = [&](int64_t step) {
    if (step != 4) return;
    for (const at::Tensor& buffer : rig.state.buffers()) in_training.push_back(buffer.clone());
  };
  EXPECT_EQ(rig.run().step, 5);
  EXPECT_FALSE(equal_on_all_ranks(rig, in_training)) << "each rank has its own samples, or this test shows nothing";
  EXPECT_TRUE(equal_on_all_ranks(rig, rig.state.buffers()));
  EXPECT_TRUE(equal_on_all_ranks(rig, rig.state.parameters()));
}

TEST(Trap20BuffersDifferByRank, EqualWhenSaved) {
  EXPECT_EQ(test::run_ranks(2, train_and_save), test::all_succeed(2));
}

void train_and_evaluate(int, const CommOptions& options) {
  TempDir directory;
  RunPlan plan = batch_norm_plan(directory.path());
  plan.evaluate = testing::steps(2);
  Rig rig(plan, make_comms(options), "auto", images(20));
  const auto val = images(6);
  LoaderOptions loading = rig.loader_options();
  rig.evaluator = std::make_unique<Evaluator>(
      Evaluator::Parts{*rig.state.model, *rig.objective, nullptr, *val, rig.vote, rig.marker, rig.stop},
      EvaluateOptions{.transforms = {}, .loader = loading});
  std::vector<at::Tensor> evaluated;
  rig.marker.watch([&](Phase phase, int64_t) {
    if (phase != Phase::kEvaluation) return;
    for (const at::Tensor& buffer : rig.state.buffers()) evaluated.push_back(buffer.clone());
  });
  rig.run();
  EXPECT_EQ(evaluated.size(), 3 * rig.state.buffers().size()) << "after steps 2, 4 and 5";
  EXPECT_TRUE(equal_on_all_ranks(rig, evaluated));
}

TEST(Trap20BuffersDifferByRank, EqualWhenAnEvaluationBegins) {
  EXPECT_EQ(test::run_ranks(2, train_and_evaluate), test::all_succeed(2));
}

void start_from_different_seeds(int rank, const CommOptions& options) {
  TempDir directory;
  Rig rig(batch_norm_plan(directory.path()), make_comms(options), "auto", images(20));
  const NamedTensors tensors = model_tensors(*rig.state.model);
  const at::NoGradGuard no_grad;
  int64_t integers = 0;
  for (auto [name, tensor] : tensors) {
    tensor.fill_(rank + 3);
    integers += tensor.is_floating_point() ? 0 : 1;
  }
  EXPECT_GT(integers, 0) << "num_batches_tracked";
  resume(rig.comms, rig.state, rig.stamp, [] { return ResumeChoice{}; });
  for (const auto& [name, tensor] : tensors) EXPECT_TRUE(tensor.eq(3).all().item<bool>()) << name;
}

TEST(Trap21BuffersNotBroadcast, AtTheStartAllIsRankZeros) {
  EXPECT_EQ(test::run_ranks(2, start_from_different_seeds), test::all_succeed(2));
}

// Running means and counts are evaluated as they are: averaging a count makes it none.
TEST(Trap31EmaOnSkippedStep, BuffersAreNotAveraged) {
  TempDir directory;
  RunPlan plan = batch_norm_plan(directory.path());
  plan.train.ema_decay = 0.5;
  Rig rig(plan, testing::alone(), "auto", images(20));
  rig.run();
  EXPECT_EQ(rig.state.ema->state().size(), rig.state.parameters().size());
  const std::vector<at::Tensor> buffers = rig.state.buffers();
  const std::string before = hash_of(buffers);
  const Ema::Applied applied(*rig.state.ema);
  EXPECT_EQ(hash_of(buffers), before);
  for (const at::Tensor& buffer : buffers) {
    if (buffer.is_floating_point()) continue;
    EXPECT_EQ(buffer.item<int64_t>(), 5) << "one a step";
  }
}

at::Tensor image(int rank, int64_t which) {
  return testing::ramp({2, 1, 4, 4}, at::kDouble, 10 * rank + which);
}

// Buffers are broadcast before evaluations and saves, never in a forward pass: two passes before one backward find the
// tensors that the graph has kept.
void two_forwards_one_backward(int, const CommOptions& options) {
  TempDir directory;
  RunPlan plan = batch_norm_plan(directory.path());
  plan.train.precision = Precision::kFp64;
  Rig rig(plan, make_comms(options), "auto", images(20));
  std::vector<at::Tensor> expected;
  for (int rank = 0; rank < rig.world; ++rank) {
    const auto twin = make_model(plan.model, plan.seed, at::kDouble);
    (twin->forward(image(rank, 1)).square().sum() + twin->forward(image(rank, 2)).square().sum()).backward();
    const auto parameters = named_parameters_of(*twin);
    for (size_t i = 0; i < parameters.size(); ++i) {
      const at::Tensor part = parameters[i].second.grad() / rig.world;
      rank == 0 ? expected.push_back(part) : void(expected[i].add_(part));
    }
  }
  for (int repeat = 0; repeat < 2; ++repeat) {
    rig.reducer->zero_gradients();
    rig.reducer->begin_micro_batch(true);
    Model& model = *rig.state.model;
    (model.forward(image(rig.rank, 1)).square().sum() + model.forward(image(rig.rank, 2)).square().sum()).backward();
    rig.reducer->finish();
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_LT(testing::relative_difference(rig.state.parameters()[i].grad(), expected[i]), 1e-12) << i;
    }
  }
  EXPECT_EQ(rig.reducer->all_reduce_count(), 2) << "one bucket a backward, and nothing for buffers";
}

TEST(Trap47TwoForwardsBeforeOneBackward, HaveTheGradientOfBoth) {
  EXPECT_EQ(test::run_ranks(2, two_forwards_one_backward), test::all_succeed(2));
}

}  // namespace
}  // namespace gputrain

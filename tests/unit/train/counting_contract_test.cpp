// Traps 2, 4, 18 and 26 and the mixing of a step: what a step's loss and gradient depend on, and what they do not.
#include <algorithm>
#include <cmath>

#include <gmock/gmock.h>

#include "support/golden.h"
#include "train/mixing.h"
#include "unit/train/train_rig.h"
#include "util/random.h"

namespace gputrain {
namespace {

using testing::alone;
using testing::Rig;
using testing::small_plan;
using testing::TempDir;

constexpr int64_t kLength = 6, kVocabulary = 11, kPadding = -1;

// Sentences of 0 to 6 tokens, padded: a mean of the micro-batches' means would be far from the mean over all tokens.
class PaddedTokens : public Source {
 public:
  int64_t size() const override { return 13; }
  std::vector<int64_t> sample_shape() const override { return {kLength}; }
  at::ScalarType sample_type() const override { return at::kLong; }
  at::ScalarType target_type() const override { return at::kLong; }
  std::vector<int64_t> target_shape() const override { return {kLength}; }
  void read(int64_t id, void* sample, void* target) const override {
    for (int64_t i = 0; i < kLength; ++i) {
      static_cast<int64_t*>(sample)[i] = (id * 5 + i * 3) % kVocabulary;
      static_cast<int64_t*>(target)[i] = i < id * 4 % (kLength + 1) ? (id + i * 7) % kVocabulary : kPadding;
    }
  }
  Json fingerprint() const override { return {{"format", "padded"}}; }
};

RunPlan padded_plan(const std::string& output) {
  RunPlan plan = small_plan(output);
  plan.task = Task::kLanguageModel;
  plan.loss.ignore_index = kPadding;
  plan.model.name = "gpt";
  plan.model.args = {{"size", "custom"}, {"layers", 1},        {"heads", 1},
                     {"width", 8},       {"context", kLength}, {"vocab_size", kVocabulary}};
  plan.train.precision = Precision::kFp64;
  plan.train.global_batch = 5;
  plan.train.epochs = 1;
  plan.train.clip_grad_norm = 0;
  plan.optimizer = {"sgd", {{"lr", 0.5}, {"momentum", 0.0}, {"nesterov", false}, {"weight_decay", 0.0}}};
  plan.schedule.name = "constant";
  return plan;
}

// One process, each window at once, PyTorch's own mean over what is not ignored.
struct Reference {
  std::vector<double> losses;
  std::vector<at::Tensor> parameters;
};
Reference whole_windows(const RunPlan& plan) {
  const PaddedTokens source;
  const auto model = make_model(plan.model, plan.seed, at::kDouble);
  Reference reference;
  for (const auto& [name, parameter] : named_parameters_of(*model)) reference.parameters.push_back(parameter);
  const SampleOrder order(source.size(), plan.seed, 0);
  for (int64_t begin = 0; begin < source.size(); begin += plan.train.global_batch) {
    const int64_t rows = std::min(plan.train.global_batch, source.size() - begin);
    const at::Tensor inputs = at::empty({rows, kLength}, at::kLong), targets = at::empty({rows, kLength}, at::kLong);
    for (int64_t row = 0; row < rows; ++row)
      source.read(order[begin + row], inputs[row].data_ptr(), targets[row].data_ptr());
    for (const at::Tensor& parameter : reference.parameters) parameter.mutable_grad() = at::Tensor();
    const at::Tensor loss = at::cross_entropy_loss(model->forward(inputs).flatten(0, 1), targets.flatten(), {},
                                                   at::Reduction::Mean, kPadding);
    loss.backward();
    reference.losses.push_back(loss.item<double>());
    const at::NoGradGuard no_grad;
    for (at::Tensor& parameter : reference.parameters) parameter.sub_(parameter.grad(), 0.5);
  }
  return reference;
}

void train_padded(int rank, const CommOptions& options, int64_t micro_batch) {
  TempDir directory;
  RunPlan plan = padded_plan(directory.path());
  plan.train.micro_batch = micro_batch;
  const Reference expected = whole_windows(plan);
  Rig rig(plan, make_comms(options), "auto", std::make_unique<PaddedTokens>());
  EXPECT_EQ(rig.run().step, 3);
  for (size_t i = 0; i < expected.parameters.size(); ++i) {
    EXPECT_LT(testing::relative_difference(rig.state.parameters()[i].detach(), expected.parameters[i].detach()), 1e-12)
        << i;
  }
  const std::vector<Json> records = rig.records.of("step");
  if (rank != 0) return;
  ASSERT_EQ(records.size(), expected.losses.size());
  for (size_t i = 0; i < records.size(); ++i)
    EXPECT_NEAR(records[i].at("loss").get<double>(), expected.losses[i], 1e-12) << "step " << i + 1;
}

TEST(Trap02TokensOfTheWholeStep, PaddingAndCutsDoNotChangeTheLoss) {
  for (const auto& [world, micro_batch] : {std::pair<int, int64_t>{1, 0}, {1, 1}, {1, 2}, {2, 0}, {2, 1}, {3, 1}}) {
    SCOPED_TRACE("world " + std::to_string(world) + ", micro_batch " + std::to_string(micro_batch));
    EXPECT_EQ(test::run_ranks(world, [cut = micro_batch](
                                         int rank, const CommOptions& options) { train_padded(rank, options, cut); }),
              test::all_succeed(world));
  }
}

class NothingButPadding : public PaddedTokens {
 public:
  void read(int64_t id, void* sample, void* target) const override {
    PaddedTokens::read(id, sample, target);
    std::fill_n(static_cast<int64_t*>(target), kLength, kPadding);
  }
};

// Its loss is 0 and its gradients are 0: that must not pass for a run that is done.
TEST(Loop, ARunInWhichNoTargetCountsFails) {
  TempDir directory;
  Rig rig(padded_plan(directory.path()), alone(), "auto", std::make_unique<NothingButPadding>());
  try {
    rig.run();
    FAIL() << "done";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind, ErrorKind::kData);
    EXPECT_THAT(error.message, ::testing::HasSubstr("no target of the last 3 steps counts"));
  }
  EXPECT_TRUE(rig.records.of("checkpoint").empty());
}

// A learning rate of 0: every pass over a window must find the same gradient again.
void repeat_window(int, const CommOptions& options) {
  TempDir directory;
  RunPlan plan = small_plan(directory.path());
  plan.train.micro_batch = 2;
  plan.optimizer = {"sgd", {{"lr", 0.0}, {"momentum", 0.0}, {"nesterov", false}, {"weight_decay", 0.0}}};
  Rig rig(plan, make_comms(options));
  std::vector<std::string> gradients;
  rig.runner->hooks().on_gradients = [&](int64_t) {
    std::vector<at::Tensor> found;
    for (const at::Tensor& parameter : rig.state.parameters()) found.push_back(parameter.grad());
    gradients.push_back(hash_of(found));
  };
  for (const int64_t window : {0, 0, 4, 0, 4}) {  // 4: the short last one of an epoch
    rig.loader->seek(0, window);
    const StepResult result = rig.runner->run(*rig.loader->next_step(), window == 4 ? 6 : 10);
    rig.state.counters.finish_step(10, 46, result.skipped);
  }
  EXPECT_EQ(gradients[1], gradients[0]);
  EXPECT_EQ(gradients[3], gradients[0]);
  EXPECT_EQ(gradients[4], gradients[2]);
  EXPECT_NE(gradients[2], gradients[0]);
}

TEST(Trap04StaleGradients, AWindowStartsFromZero) {
  for (const int world : {1, 2}) EXPECT_EQ(test::run_ranks(world, repeat_window), test::all_succeed(world));
}

TEST(Trap04StaleGradients, EveryWindowIsAnUpdateTheShortLastOneToo) {
  TempDir directory;
  RunPlan plan = small_plan(directory.path());
  plan.train.micro_batch = 4;
  Rig rig(plan, alone());
  EXPECT_EQ(rig.run().step, 10);
  EXPECT_EQ(rig.state.counters.updates, 10) << "2 epochs of 46 samples in windows of 10";
}

void check_rates(int rank, const CommOptions& options, int64_t micro_batch) {
  TempDir directory;
  RunPlan plan = small_plan(directory.path());
  plan.train.micro_batch = micro_batch;
  plan.schedule.warmup = {3, Length::Unit::kSteps};
  Rig rig(plan, make_comms(options));
  rig.run();
  const std::vector<Json> records = rig.records.of("step");
  if (rank != 0) return;
  ASSERT_EQ(records.size(), 10u);
  const Schedule schedule(plan.schedule, /*total_updates=*/10, /*steps_per_epoch=*/5);
  for (size_t i = 0; i < records.size(); ++i)
    EXPECT_EQ(records[i].at("lr").get<double>(), 1e-2 * schedule.factor(static_cast<int64_t>(i))) << "step " << i + 1;
}

TEST(Trap18ScheduleCountsMicroBatches, TheRateOfASampleIsTheSameForAnyCut) {
  for (const auto& [world, micro_batch] : {std::pair<int, int64_t>{1, 0}, {1, 3}, {2, 0}, {2, 2}}) {
    SCOPED_TRACE("world " + std::to_string(world) + ", micro_batch " + std::to_string(micro_batch));
    EXPECT_EQ(test::run_ranks(world, [cut = micro_batch](
                                         int rank, const CommOptions& options) { check_rates(rank, options, cut); }),
              test::all_succeed(world));
  }
}

// All samples are alike.
class OneSample : public Source {
 public:
  int64_t size() const override { return 8; }
  std::vector<int64_t> sample_shape() const override { return {12}; }
  at::ScalarType sample_type() const override { return at::kFloat; }
  at::ScalarType target_type() const override { return at::kLong; }
  std::vector<int64_t> target_shape() const override { return {}; }
  void read(int64_t, void* sample, void* target) const override {
    for (int64_t i = 0; i < 12; ++i) static_cast<float*>(sample)[i] = 0.1F * static_cast<float>(i) - 0.4F;
    *static_cast<int64_t*>(target) = 2;
  }
  Json fingerprint() const override { return {{"format", "one"}}; }
};

double first_loss(RunPlan plan, const Comms& comms, double dropout) {
  plan.model.args["hidden"] = {64};
  plan.model.args["dropout"] = dropout;
  plan.train.global_batch = comms.control->world_size();
  Rig rig(plan, comms, "auto", std::make_unique<OneSample>());
  EXPECT_EQ(comms.control->broadcast_bytes(rig.hash(), 0), rig.hash()) << "initial weights";
  return rig.runner->run(*rig.loader->next_step(), plan.train.global_batch).loss;
}

// A world of one draws rank 0's mask: if rank 1 drew the same, the mean of both would be its loss.
void compare_masks(int, const CommOptions& options) {
  TempDir one, two;
  const Comms both = make_comms(options);
  for (const double dropout : {0.0, 0.5}) {
    const double of_both = first_loss(small_plan(two.path()), both, dropout);
    const double of_rank_0 = first_loss(small_plan(one.path()), alone(), dropout);
    EXPECT_EQ(std::abs(of_both - of_rank_0) < 1e-6, dropout == 0) << of_both << " " << of_rank_0;
  }
}

TEST(Trap26SameRandomnessOnAllRanks, DropoutDiffersAndWeightsDoNot) {
  EXPECT_EQ(test::run_ranks(2, compare_masks), test::all_succeed(2));
}

// Of a step whose learning rate is 0, written out: one share a step, from seed and step alone.
void check_mixed_steps(int, const CommOptions& options) {
  TempDir directory;
  RunPlan plan = small_plan(directory.path());
  plan.train.precision = Precision::kFp64;
  plan.mix.mixup = 0.4;
  plan.optimizer = {"sgd", {{"lr", 0.0}, {"momentum", 0.0}, {"nesterov", false}, {"weight_decay", 0.0}}};
  Rig rig(plan, make_comms(options));
  std::vector<double> shares;
  for (int64_t step = 1; step <= 3; ++step) {
    const std::vector<Batch> batches = *rig.loader->next_step();
    const Batch& batch = batches.front();
    const uint64_t key = derive_seed(RandomDomain::kMixing, plan.seed, static_cast<uint64_t>(step), 0);
    const double share = mix(plan.mix, key, batch.inputs, batch.targets).share;
    const at::Tensor inputs = batch.inputs * share + batch.inputs.roll(1, 0) * (1 - share);
    const at::Tensor logits = rig.state.model->forward(inputs);
    const auto sum = [&](const at::Tensor& labels) {
      return at::cross_entropy_loss(logits, labels, {}, at::Reduction::Sum).item<double>();
    };
    at::Tensor expected =
        at::full({1}, (share * sum(batch.targets) + (1 - share) * sum(batch.targets.roll(1, 0))) / 10, at::kDouble);
    rig.comms.control->all_reduce_sum(expected);
    const StepResult result = rig.runner->run(batches, 10);
    EXPECT_NEAR(result.loss, expected.item<double>(), 1e-12) << "step " << step;
    rig.state.counters.finish_step(10, 46, result.skipped);
    shares.push_back(share);
  }
  EXPECT_NE(shares[0], shares[1]);
  EXPECT_NE(shares[1], shares[2]);
}

TEST(MixedStep, ShareAndLossAreThoseOfSeedAndStep) {
  for (const int world : {1, 2}) EXPECT_EQ(test::run_ranks(world, check_mixed_steps), test::all_succeed(world));
}

}  // namespace
}  // namespace gputrain

// Training with model.freeze: what is frozen stays as it was, has no optimizer state, and is in checkpoints.
#include <gmock/gmock.h>

#include "support/golden.h"
#include "unit/train/train_rig.h"

namespace gputrain {
namespace {

using testing::alone;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::Rig;
using testing::small_plan;
using testing::TempDir;

RunPlan frozen_plan(const std::string& output) {
  RunPlan plan = small_plan(output);
  plan.train.precision = Precision::kFp64;
  plan.checkpoint.every = testing::steps(5);
  const auto names = all_parameters_of(*make_model(plan.model, 1, at::kFloat));
  plan.model.freeze = {names[0].first, names[3].first};  // a weight and the bias of another layer
  return plan;
}

std::map<std::string, at::Tensor> copies(const Model& model) {
  std::map<std::string, at::Tensor> tensors;
  for (const auto& [name, tensor] : model_tensors(model)) tensors[name] = tensor.detach().clone();
  return tensors;
}

// Trains to the end; checks what is frozen; returns all tensors.
std::map<std::string, at::Tensor> train(const Comms& comms) {
  const TempDir directory;
  const RunPlan plan = frozen_plan(directory.path());
  Rig rig(plan, comms);
  const auto before = copies(*rig.state.model);
  EXPECT_EQ(rig.run().step, 10);
  const auto after = copies(*rig.state.model);
  for (const auto& [name, tensor] : after) {
    const bool frozen = name == plan.model.freeze[0] || name == plan.model.freeze[1];
    EXPECT_EQ(at::equal(tensor, before.at(name)), frozen) << name;
  }
  for (const auto& [name, tensor] : rig.state.optimizer->state()) {
    for (const std::string& frozen : plan.model.freeze) EXPECT_THAT(name, Not(HasSubstr(frozen)));
  }
  return after;
}

TEST(Frozen, TrainsOnTwoRanksAsOnOne) {
  EXPECT_EQ(test::run_ranks(2,
                            [](int, const CommOptions& options) {
                              const auto two = train(make_comms(options));
                              for (const auto& [name, tensor] : train(alone()))
                                EXPECT_LT(testing::relative_difference(two.at(name), tensor), 1e-12) << name;
                            }),
            test::all_succeed(2));
}

// As Python does with requires_grad False: the loss's own gradient for what is trained.
TEST(Frozen, OtherGradientsAreTheWholeModels) {
  const TempDir directory;
  RunPlan plan = frozen_plan(directory.path());
  const auto frozen = make_model(plan.model, plan.seed, at::kDouble);
  plan.model.freeze.clear();
  const auto whole = make_model(plan.model, plan.seed, at::kDouble);
  const at::Tensor x = testing::ramp({6, 12}, at::kDouble), y = at::arange(6).remainder(4);
  for (const auto& model : {frozen, whole}) at::cross_entropy_loss(model->forward(x), y).backward();
  const auto expected = whole->named_parameters();
  for (const auto& [name, parameter] : named_parameters_of(*frozen))
    EXPECT_TRUE(at::equal(parameter.grad(), expected[name].grad())) << name;
}

TEST(Frozen, CheckpointsHoldEveryParameter) {
  const TempDir directory;
  const RunPlan plan = frozen_plan(directory.path());
  std::string hash;
  {
    Rig rig(plan, alone());
    // As if first weights had been loaded: they are nowhere else.
    for (const auto& [name, tensor] : all_parameters_of(*rig.state.model)) tensor.detach().add_(0.5);
    rig.run();
    hash = rig.hash();
  }
  Rig again(plan, alone());
  ASSERT_TRUE(again.resumed.saved);
  EXPECT_EQ(again.hash(), hash);
}

}  // namespace
}  // namespace gputrain

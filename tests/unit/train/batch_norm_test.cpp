#include "train/batch_norm.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "util/error.h"

namespace gputrain {
namespace {

using ::testing::HasSubstr;

// 17 samples in global batches of 8: the last window has one.
struct Case {
  Case() {
    plan.model.name = "resnet18";
    plan.model.args = {{"in_channels", 3}, {"num_classes", 4}};
    plan.train.global_batch = 8;
    facts = {.samples = 17, .total_steps = 6, .steps_per_epoch = 3, .input_shape = {3, 32, 32}};
    model = make_model(plan.model, 1, at::kFloat);
  }
  std::string refusal() {
    try {
      check_batch_norm(plan, *model, facts);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind, ErrorKind::kSpec);
      return error.message + " | " + error.hint;
    }
    return "";
  }
  RunPlan plan;
  BatchNormFacts facts;
  std::shared_ptr<Model> model;
};

TEST(BatchNorm, ALastWindowOfOneSampleIsRefusedBeforeTraining) {
  Case c;
  EXPECT_THAT(c.refusal(), HasSubstr("rank 0 gets a micro-batch of one sample in step 3, the short last one"));
  EXPECT_THAT(c.refusal(), HasSubstr("data.tail: drop"));
  c.facts.total_steps = 2;
  EXPECT_EQ(c.refusal(), "") << "the run ends before the last window";
}

TEST(BatchNorm, SoAreMicroBatchesOfOneEverywhere) {
  Case c;
  c.facts.samples = 16;
  c.facts.steps_per_epoch = 2;
  EXPECT_EQ(c.refusal(), "");
  c.plan.launch.world_size = 3;  // shares of 2, 3 and 3
  EXPECT_EQ(c.refusal(), "");
  c.plan.train.micro_batch = 2;  // rank 1: 2 + 1
  EXPECT_THAT(c.refusal(), HasSubstr("rank 1 gets a micro-batch of one sample in step 1 | use a larger"));
}

TEST(BatchNorm, ImagesThatLeaveMorePixelsAreFine) {
  Case c;
  c.facts.input_shape = {3, 64, 64};
  EXPECT_EQ(c.refusal(), "");
}

TEST(BatchNorm, ModelsWithoutItAreNotAsked) {
  Case c;
  c.plan.model.name = "mlp";
  EXPECT_EQ(c.refusal(), "");
}

TEST(BatchNorm, TheModelStaysAsItWas) {
  Case c;
  c.facts.input_shape = {3, 64, 64};
  c.model->eval();
  std::vector<at::Tensor> before;
  for (const auto& [name, buffer] : named_buffers_of(*c.model)) before.push_back(buffer.clone());
  c.refusal();
  EXPECT_FALSE(c.model->is_training());
  const auto buffers = named_buffers_of(*c.model);
  for (size_t i = 0; i < before.size(); ++i) EXPECT_TRUE(at::equal(buffers[i].second, before[i])) << buffers[i].first;
}

}  // namespace
}  // namespace gputrain

// What is asked of a model before training: does it take the samples, are all its parameters trained.
#include "train/model_input.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>

#include "support/temp_dir.h"
#include "train/batch_norm.h"
#include "util/error.h"

namespace gputrain {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// `unused` layers of which nothing comes out, and one that only evaluation uses.
class Partial : public Model {
 public:
  explicit Partial(int unused) : fc(3, 2), norm(2), late(2, 2) {
    register_module("fc", fc);
    register_module("norm", norm);
    register_module("late", late);
    for (int i = 0; i < unused; ++i) register_parameter("unused" + std::to_string(i), at::ones({2}));
  }
  at::Tensor forward(const at::Tensor& inputs) override {
    const at::Tensor hidden = at::dropout(norm->forward(fc->forward(inputs)), 0.5, is_training());
    return late_used || !is_training() ? late->forward(hidden) : hidden;
  }
  torch::nn::Linear fc;
  torch::nn::BatchNorm1d norm;
  torch::nn::Linear late;
  bool late_used = true;
};

std::string refusal(Model& model) {
  try {
    check_all_trained(model, {3}, at::kFloat);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind, ErrorKind::kSpec);
    return error.message + " | " + error.hint;
  }
  return "";
}

TEST(AllTrained, ParametersThatNoGradientReachesAreNamed) {
  Partial whole(0), one(1), many(7);
  EXPECT_EQ(refusal(whole), "");
  EXPECT_THAT(refusal(one), HasSubstr("no gradient reaches 1 trained parameter, which the model's output does not "
                                      "depend on: unused0 | freeze them: model.freeze: [unused0]"));
  EXPECT_THAT(refusal(many), HasSubstr("7 trained parameters, which the model's output does not depend on: unused0, "
                                       "unused1, unused2, unused3, unused4 and 2 more"));
  EXPECT_THAT(refusal(many), HasSubstr("model.freeze: [unused0, unused1, unused2, unused3, unused4, ...]"));
  for (auto& item : one.named_parameters()) {
    if (item.key() == "unused0") item.value().set_requires_grad(false);
  }
  EXPECT_EQ(refusal(one), "") << "as the hint says";
}

TEST(AllTrained, TrainingIsWhatCounts) {
  Partial model(0);
  model.late_used = false;
  model.eval();
  EXPECT_THAT(refusal(model), HasSubstr("2 trained parameters, which the model's output does not depend on: "
                                        "late.weight, late.bias"));
}

TEST(AllTrained, TheModelAndTheRandomNumbersStayAsTheyWere) {
  Partial model(1);
  model.eval();
  at::manual_seed(5);
  const at::Tensor expected = at::rand({4});
  at::manual_seed(5);
  EXPECT_NE(refusal(model), "");
  EXPECT_TRUE(at::equal(at::rand({4}), expected)) << "dropout has drawn";
  EXPECT_FALSE(model.is_training());
  for (const auto& [name, parameter] : named_parameters_of(model)) EXPECT_FALSE(parameter.grad().defined()) << name;
  EXPECT_TRUE(at::equal(model.norm->running_var, at::ones({2})));
  EXPECT_EQ(model.norm->num_batches_tracked.item<int64_t>(), 0);
}

class Broken : public Partial {
 public:
  Broken() : Partial(0) {}
  at::Tensor forward(const at::Tensor& inputs) override {
    const at::Tensor hidden = at::exp(fc->forward(inputs));
    if (is_training()) at::Tensor(hidden).mul_(2);
    return hidden;
  }
};

TEST(AllTrained, ABackwardPassThatFailsIsToldBeforeTraining) {
  Broken model;
  EXPECT_THAT(refusal(model), HasSubstr("a backward pass through it fails: one of the variables needed for gradient"));
  for (const auto& [name, parameter] : named_parameters_of(model)) EXPECT_FALSE(parameter.grad().defined()) << name;
}

class Detached : public Partial {
 public:
  Detached() : Partial(0) {}
  at::Tensor forward(const at::Tensor& inputs) override { return Partial::forward(inputs).detach(); }
};

TEST(AllTrained, AnOutputWithoutAGraphIsNoReasonToFreezeAll) {
  Detached model;
  EXPECT_THAT(refusal(model),
              HasSubstr("does not depend on any of its parameters: nothing to train | look for detach"));
}

// Every model of the catalog, so that only those of others need be asked.
TEST(AllTrained, ModelsOfTheCatalogTrainAllTheyHave) {
  const Json images{{"num_classes", 3}};
  const Json vit{{"num_classes", 3}, {"image_size", 32}};
  const Json unet{{"num_classes", 3}, {"width", 4}, {"levels", 2}};
  const std::map<std::string, std::pair<Json, std::vector<int64_t>>> cases{
      {"mlp", {{{"in_features", 5}, {"hidden", {4}}, {"num_classes", 3}}, {5}}},
      {"small_cnn", {{{"in_channels", 1}, {"num_classes", 3}}, {1, 28, 28}}},
      {"resnet18", {images, {3, 32, 32}}},
      {"resnet34", {images, {3, 32, 32}}},
      {"resnet50", {images, {3, 32, 32}}},
      {"resnet101", {images, {3, 32, 32}}},
      {"vit_b_16", {vit, {3, 32, 32}}},
      {"vit_s_16", {vit, {3, 32, 32}}},
      {"gpt",
       {{{"size", "custom"}, {"layers", 2}, {"heads", 2}, {"width", 8}, {"context", 6}, {"vocab_size", 10}}, {6}}},
      {"unet2d", {unet, {3, 8, 8}}},
      {"unet3d", {unet, {1, 8, 8, 8}}}};
  for (const std::string& name : model_names()) {
    ASSERT_TRUE(cases.contains(name)) << name;
    const auto& [args, shape] = cases.at(name);
    const auto model = make_model({.name = name, .args = args}, 1, at::kFloat);
    EXPECT_NO_THROW(check_all_trained(*model, shape, name == "gpt" ? at::kLong : at::kFloat)) << name;
  }
}

// What torch.jit.script makes of a convolution, or of BatchNorm1d (whose Python code does the check).
class ScriptedInput : public ::testing::Test {
 protected:
  std::shared_ptr<Model> model_of(const at::Tensor& weight, const std::string& code) const {
    torch::jit::Module module("__torch__.Net");
    module.register_attribute("training", c10::BoolType::get(), true);
    module.register_parameter("w", weight.requires_grad_(), /*is_buffer=*/false);
    module.register_buffer("mean", at::zeros({4}));
    module.register_buffer("var", at::ones({4}));
    module.define("def forward(self, x):\n" + code);
    module.save(plan().torchscript);
    return make_model(plan(), 1, at::kFloat);
  }
  ModelPlan plan() const {
    ModelPlan plan;
    plan.torchscript = directory_ / "m.pt";
    return plan;
  }
  const testing::TempDir directory_;
};

TEST_F(ScriptedInput, ChannelsThatDoNotFitAreASpecsError) {
  const auto model = model_of(at::ones({2, 3, 3, 3}), "  return torch.conv2d(x, self.w).mean([2, 3])\n");
  try {
    check_model_takes(*model, {1, 8, 8}, at::kFloat, "data.train");
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind, ErrorKind::kSpec);
    EXPECT_THAT(error.message, HasSubstr("which are 1 x 8 x 8 after their transforms: Given groups=1, weight of size "
                                         "[2, 3, 3, 3], expected input[1, 1, 8, 8] to have 3 channels"));
    EXPECT_THAT(error.message, Not(HasSubstr("\n")));
  }
}

TEST_F(ScriptedInput, ALastBatchOfOneIsToldOfItsBatchNorm) {
  const auto model = model_of(at::ones({4}), R"(
  if self.training:
    assert x.size(0) > 1, 'Expected more than 1 value per channel when training, got input size [1, 4]'
  return torch.batch_norm(x, self.w, None, self.mean, self.var, self.training, 0.1, 1e-5, False)
)");
  RunPlan plan;
  plan.model = this->plan();
  plan.train.global_batch = 8;
  BatchNormFacts facts{.samples = 17, .total_steps = 3, .steps_per_epoch = 3, .input_shape = {4}};
  try {
    check_batch_norm(plan, *model, facts);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind, ErrorKind::kSpec);
    EXPECT_THAT(error.message, HasSubstr("in step 3, the short last one of an epoch"));
  }
}

}  // namespace
}  // namespace gputrain

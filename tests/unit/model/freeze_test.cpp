#include "model/freeze.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include "support/golden.h"
#include "util/error.h"

namespace gputrain {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ModelPlan mlp(std::vector<std::string> freeze) {
  ModelPlan plan;
  plan.name = "mlp";
  plan.args = {{"in_features", 4}, {"hidden", {8, 8}}, {"num_classes", 3}, {"dropout", 0.0}};
  plan.freeze = std::move(freeze);
  return plan;
}

std::vector<std::string> trained(const Model& model) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : named_parameters_of(model)) names.push_back(name);
  return names;
}

Error error_of(const ModelPlan& plan) {
  try {
    make_model(plan, 1, at::kFloat);
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no error";
  return Error(ErrorKind::kInternal, "none");
}

TEST(Freeze, TakesParametersOutOfTrainingOnly) {
  const auto plain = make_model(mlp({}), 5, at::kDouble);
  const auto names = trained(*plain);
  const auto model = make_model(mlp({names[0], names[2].substr(0, names[2].rfind('.')) + ".*"}), 5, at::kDouble);
  EXPECT_THAT(trained(*model), ElementsAre(names[1], names[4], names[5]));
  const auto all = all_parameters_of(*model);
  ASSERT_EQ(all.size(), names.size());

  // The same gradients as those of the whole model, for what is trained; none for the rest.
  const at::Tensor x = testing::ramp({6, 4}, at::kDouble);
  plain->forward(x).square().sum().backward();
  model->forward(x).square().sum().backward();
  const auto expected = all_parameters_of(*plain);
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_TRUE(at::equal(all[i].second, expected[i].second)) << "the generator must not notice";
    EXPECT_EQ(all[i].second.grad().defined(), all[i].second.requires_grad()) << all[i].first;
    if (!all[i].second.requires_grad()) continue;
    EXPECT_TRUE(at::equal(all[i].second.grad(), expected[i].second.grad())) << all[i].first;
  }
}

TEST(Freeze, BuffersAreNotParameters) {
  ModelPlan plan;
  plan.name = "resnet18";
  plan.args = {{"num_classes", 2}};
  plan.freeze = {"*.running_mean"};
  EXPECT_THAT(error_of(plan).message, HasSubstr("\"*.running_mean\" matches no parameter"));

  // As in PyTorch: a frozen BatchNorm layer in training moves its running statistics.
  plan.freeze = {"bn1.*", "layer*", "conv1.*"};
  const auto model = make_model(plan, 1, at::kFloat);
  EXPECT_THAT(trained(*model), ElementsAre("fc.weight", "fc.bias"));
  const at::Tensor mean = named_buffers_of(*model)[0].second;
  model->forward(testing::ramp({2, 3, 32, 32}, at::kFloat));
  EXPECT_GT(mean.abs().sum().item<float>(), 0.0);
}

TEST(Freeze, PatternsThatMatchNothingOrEverythingAreErrors) {
  const Error nothing = error_of(mlp({"classifier.*"}));
  EXPECT_EQ(nothing.kind, ErrorKind::kSpec);
  EXPECT_EQ(nothing.where, "model.freeze");
  EXPECT_THAT(nothing.message, HasSubstr("\"classifier.*\" matches no parameter"));
  const std::string first = trained(*make_model(mlp({}), 1, at::kFloat))[0];
  EXPECT_THAT(error_of(mlp({first.substr(0, first.rfind('.'))})).hint, HasSubstr(first));

  const Error everything = error_of(mlp({"*"}));
  EXPECT_EQ(everything.kind, ErrorKind::kSpec);
  EXPECT_THAT(everything.message, HasSubstr("nothing is left to train"));
}

class TiedModel : public Model {
 public:
  TiedModel() {
    const at::Tensor shared = register_parameter("wte", at::ones({2}));
    register_parameter("head", shared);
    register_parameter("other", at::ones({2}));
  }
  at::Tensor forward(const at::Tensor& inputs) override { return inputs; }
};

TEST(Freeze, ASharedParameterIsFrozenByAnyOfItsNames) {
  TiedModel model;
  freeze_parameters(model, {"head"});
  EXPECT_THAT(trained(model), ElementsAre("other"));
}

}  // namespace
}  // namespace gputrain

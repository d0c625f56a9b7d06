// Optimizers against torch.optim with fused=True, to the bit; state, loading.
#include "train/optimizer.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "spec/catalog/catalog.h"
#include "support/golden.h"
#include "util/error.h"

namespace gputrain {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAreArray;

// The recipe of reference_golden.py: three parameters, five updates, ramps as gradients.
constexpr double kFactors[] = {0.1, 0.55, 1.0, 0.7, 0.3};

NamedParameters make_parameters(at::ScalarType type) {
  NamedParameters out = {{"a.weight", testing::ramp({7, 5}, type, 0)},
                         {"a.bias", testing::ramp({7}, type, 1)},
                         {"b", testing::ramp({3, 2, 3}, type, 2)}};
  for (auto& [name, tensor] : out) tensor.set_requires_grad(true);
  return out;
}

void set_gradients(const NamedParameters& parameters, int step) {
  for (size_t k = 0; k < parameters.size(); ++k) {
    const at::Tensor& p = parameters[k].second;
    p.mutable_grad() = testing::ramp(p.sizes(), p.scalar_type(), 10 + 7 * step + static_cast<int64_t>(k)) * 0.5;
  }
}

void train(Optimizer& optimizer, const NamedParameters& parameters, int from, int to) {
  for (int step = from; step < to; ++step) {
    set_gradients(parameters, step);
    optimizer.step(kFactors[step]);
  }
}

std::vector<at::Tensor> copies(const NamedParameters& tensors) {
  std::vector<at::Tensor> out;
  for (const auto& [name, tensor] : tensors) out.push_back(tensor.detach().clone());
  return out;
}

void expect_equal(const NamedParameters& tensors, const std::vector<at::Tensor>& expected) {
  ASSERT_EQ(tensors.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_TRUE(at::equal(tensors[i].second.detach(), expected[i])) << tensors[i].first;
  }
}

class OptimizerGolden : public ::testing::TestWithParam<int> {
 protected:
  Json golden_ = testing::for_this_cpu(testing::golden("numerics.json").at("exact")).at("optimizers").at(GetParam());
  Named plan_{golden_.at("name").get<std::string>(), golden_.at("args")};
  at::ScalarType type_ = testing::scalar_type(golden_.at("dtype").get<std::string>());
};

TEST_P(OptimizerGolden, FiveUpdatesEqualPythonToTheBit) {
  const NamedParameters parameters = make_parameters(type_);
  const auto optimizer = make_optimizer(plan_, parameters);
  EXPECT_EQ(optimizer->base_lr(), plan_.args.at("lr").get<double>());
  train(*optimizer, parameters, 0, 5);
  for (const auto& [name, tensor] : parameters) {
    EXPECT_EQ(testing::to_hex(tensor), golden_.at("parameters").at(name).get<std::string>()) << name;
  }
  const NamedParameters state = optimizer->state();
  EXPECT_EQ(state.size(), golden_.at("state").size());
  for (const auto& [name, tensor] : state) {
    EXPECT_EQ(testing::to_hex(tensor), golden_.at("state").at(name).get<std::string>()) << name;
  }
}

TEST_P(OptimizerGolden, StateLoadedIntoAFreshOneContinuesToTheBit) {
  const NamedParameters first = make_parameters(type_);
  const auto before = make_optimizer(plan_, first);
  train(*before, first, 0, 2);

  const NamedParameters second = make_parameters(type_);
  const auto after = make_optimizer(plan_, second);
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < first.size(); ++i) second[i].second.copy_(first[i].second);
  const NamedParameters saved = before->state(), loaded = after->state();
  ASSERT_EQ(saved.size(), loaded.size());
  for (size_t i = 0; i < saved.size(); ++i) {
    EXPECT_EQ(saved[i].first, loaded[i].first);
    loaded[i].second.copy_(saved[i].second);
  }
  train(*after, second, 2, 5);
  for (const auto& [name, tensor] : second) {
    EXPECT_EQ(testing::to_hex(tensor), golden_.at("parameters").at(name).get<std::string>()) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(AllRecipes, OptimizerGolden, ::testing::Range(0, 24));

TEST(OptimizerGoldens, AreAllCovered) {
  EXPECT_EQ(testing::for_this_cpu(testing::golden("numerics.json").at("exact")).at("optimizers").size(), 24u);
}

// One update by hand, independent of PyTorch's kernels: lr 0.1, decay 0.5, gradient 2: p (1 - 0.05) - 0.1 * sign.
TEST(AdamW, FirstUpdateIsTheTextbookOne) {
  const NamedParameters parameters = {{"p", at::full({1}, 4.0, at::kDouble)}};
  const auto optimizer = make_optimizer(
      {"adamw", {{"lr", 0.1}, {"weight_decay", 0.5}, {"betas", {0.9, 0.99}}, {"eps", 1e-12}}}, parameters);
  parameters[0].second.mutable_grad() = at::full({1}, 2.0, at::kDouble);
  optimizer->step(1.0);
  EXPECT_NEAR(parameters[0].second.item<double>(), 4 * 0.95 - 0.1, 1e-11);
  const NamedParameters state = optimizer->state();
  EXPECT_NEAR(state[0].second.item<double>(), 0.2, 1e-15);   // exp_avg = (1 - beta1) g
  EXPECT_NEAR(state[1].second.item<double>(), 0.04, 1e-15);  // exp_avg_sq = (1 - beta2) g^2
  EXPECT_EQ(state[2].second.item<double>(), 1);
}

TEST(Lion, TwoUpdatesByHand) {
  const NamedParameters parameters = {{"p", at::full({1}, 4.0, at::kDouble)}};
  const auto optimizer =
      make_optimizer({"lion", {{"lr", 0.1}, {"weight_decay", 0.5}, {"betas", {0.9, 0.8}}}}, parameters);
  parameters[0].second.mutable_grad() = at::full({1}, 2.0, at::kDouble);
  optimizer->step(1.0);
  EXPECT_NEAR(parameters[0].second.item<double>(), 4 * 0.95 - 0.1, 1e-12);
  EXPECT_NEAR(optimizer->state()[0].second.item<double>(), 0.4, 1e-15);  // (1 - 0.8) g
  parameters[0].second.mutable_grad() = at::full({1}, -3.0, at::kDouble);
  optimizer->step(0.5);  // 0.9 * 0.4 - 0.1 * 3 is still above 0
  EXPECT_NEAR(parameters[0].second.item<double>(), 3.7 * 0.975 - 0.05, 1e-12);
}

TEST(Lamb, TheFirstUpdateHasTheLengthOfTheWeights) {
  const NamedParameters parameters = {{"p", at::full({4}, 3.0, at::kDouble)}, {"zero", at::zeros({2}, at::kDouble)}};
  const auto optimizer = make_optimizer(
      {"lamb", {{"lr", 0.1}, {"weight_decay", 0.0}, {"betas", {0.9, 0.99}}, {"eps", 1e-12}}}, parameters);
  for (const auto& [name, p] : parameters) p.mutable_grad() = at::full_like(p, 2.0);
  optimizer->step(1.0);
  // m_hat / sqrt(v_hat) = 1 for each of four: |r| = 2, |p| = 6. A weight of zeros has the ratio 1.
  EXPECT_TRUE(at::allclose(parameters[0].second, at::full({4}, 3 - 0.1 * 3, at::kDouble), 1e-10));
  EXPECT_TRUE(at::allclose(parameters[1].second, at::full({2}, -0.1, at::kDouble), 1e-10));
}

TEST(Sgd, MomentumIsTheTextbookOne) {
  const NamedParameters parameters = {{"p", at::full({1}, 1.0, at::kDouble)}};
  const auto optimizer = make_optimizer({"sgd", {{"lr", 0.5}, {"momentum", 0.5}}}, parameters);
  for (const double expected : {0.5, -0.25}) {  // v = 1, then 1.5
    parameters[0].second.mutable_grad() = at::ones({1}, at::kDouble);
    optimizer->step(1.0);
    EXPECT_EQ(parameters[0].second.item<double>(), expected);
  }
  optimizer->step(0.0);  // factor 0 moves the buffer only
  EXPECT_EQ(parameters[0].second.item<double>(), -0.25);
  EXPECT_EQ(optimizer->state()[0].second.item<double>(), 1.75);
}

TEST(OptimizerState, IsNamedByParameterInModelOrder) {
  const auto names = [](const Named& plan) {
    std::vector<std::string> out;
    NamedParameters parameters = make_parameters(at::kFloat);
    parameters.pop_back();
    for (const auto& [name, tensor] : make_optimizer(plan, parameters)->state()) out.push_back(name);
    return out;
  };
  EXPECT_THAT(names({"adamw", {{"lr", 0.1}}}), ElementsAre("a.weight/exp_avg", "a.weight/exp_avg_sq", "a.weight/step",
                                                           "a.bias/exp_avg", "a.bias/exp_avg_sq", "a.bias/step"));
  EXPECT_THAT(names({"sgd", {{"lr", 0.1}, {"momentum", 0.9}}}),
              ElementsAre("a.weight/momentum_buffer", "a.bias/momentum_buffer"));
  EXPECT_THAT(names({"sgd", {{"lr", 0.1}}}), ElementsAre());
}

TEST(OptimizerState, DefaultsComeFromTheCatalogAndEqualPyTorchs) {
  const Json file = testing::golden("numerics.json");
  const Json& exact = testing::for_this_cpu(file.at("exact")).at("optimizers");
  const NamedParameters parameters = make_parameters(at::kFloat), same = make_parameters(at::kFloat);
  Json args = exact.at(0).at("args");  // betas and eps are PyTorch's defaults there
  args.erase("betas");
  args.erase("eps");
  const auto optimizer = make_optimizer({"adamw", args}, parameters);
  train(*optimizer, parameters, 0, 5);
  for (const auto& [name, tensor] : parameters)
    EXPECT_EQ(testing::to_hex(tensor), exact.at(0).at("parameters").at(name));
}

TEST(Optimizer, LeavesParametersWithoutGradientAlone) {
  for (const Named& plan : {Named{"adamw", {{"lr", 0.1}}}, Named{"sgd", {{"lr", 0.1}, {"momentum", 0.9}}}}) {
    const NamedParameters parameters = make_parameters(at::kFloat);
    const auto optimizer = make_optimizer(plan, parameters);
    const auto before = copies(parameters), state_before = copies(optimizer->state());
    optimizer->step(1.0);
    expect_equal(parameters, before);
    expect_equal(optimizer->state(), state_before);
    set_gradients(parameters, 0);
    parameters[1].second.mutable_grad() = at::Tensor();
    optimizer->step(1.0);
    EXPECT_FALSE(at::equal(parameters[0].second, before[0]));
    EXPECT_TRUE(at::equal(parameters[1].second, before[1]));
    EXPECT_FALSE(at::equal(parameters[2].second, before[2]));
  }
}

Error error_of(const Named& plan, const NamedParameters& parameters = make_parameters(at::kFloat)) {
  try {
    make_optimizer(plan, parameters);
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no error for " << plan.name << " " << plan.args.dump();
  return Error(ErrorKind::kOutput, "none");
}

TEST(MakeOptimizer, BadPlansAreSpecErrors) {
  for (const auto& [plan, part] : std::vector<std::pair<Named, std::string>>{
           {{"adagrad", {{"lr", 0.1}}}, "unknown optimizer adagrad"},
           {{"adamw", Json::object()}, "adamw needs the argument lr"},
           {{"adamw", {{"lr", "0.1"}}}, "adamw.lr must be a number"},
           {{"adamw", {{"lr", 0.1}, {"momentum", 0.9}}}, "adamw has no argument momentum"},
           {{"adamw", {{"lr", 0.1}, {"betas", {0.9}}}}, "adamw.betas needs two numbers, got 1"},
           {{"sgd", {{"lr", 0.1}, {"nesterov", 1}}}, "sgd.nesterov must be true or false"},
           {{"sgd", {{"lr", 0.1}, {"nesterov", true}}}, "sgd.nesterov needs momentum above 0"},
       }) {
    const Error error = error_of(plan);
    EXPECT_EQ(error.kind, ErrorKind::kSpec) << error.message;
    EXPECT_THAT(error.message, HasSubstr(part));
  }
}

TEST(MakeOptimizer, ParametersOfTwoTypesAreRefused) {
  NamedParameters parameters = make_parameters(at::kFloat);
  parameters.emplace_back("odd", at::zeros({1}, at::kDouble));
  const Error error = error_of({"sgd", {{"lr", 0.1}}}, parameters);
  EXPECT_EQ(error.kind, ErrorKind::kInternal);
  EXPECT_THAT(error.message, HasSubstr("odd"));
}

TEST(MakeOptimizer, BindsExactlyTheCatalog) {
  EXPECT_THAT(optimizer_names(), UnorderedElementsAreArray(names_of(CatalogKind::kOptimizer)));
}

}  // namespace
}  // namespace gputrain

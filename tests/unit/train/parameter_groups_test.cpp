#include "train/parameter_groups.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/model.h"
#include "support/golden.h"
#include "util/error.h"

namespace gputrain {
namespace {

using ::testing::HasSubstr;

NamedParameters some_parameters() {
  NamedParameters parameters;
  int64_t salt = 0;
  for (const auto& [name, shape] : std::vector<std::pair<std::string, std::vector<int64_t>>>{{"body.weight", {3, 4}},
                                                                                             {"body.bias", {3}},
                                                                                             {"norm.weight", {3}},
                                                                                             {"head.weight", {2, 3}},
                                                                                             {"head.bias", {2}}}) {
    at::Tensor p = testing::ramp(shape, at::kDouble, ++salt).set_requires_grad(true);
    p.mutable_grad() = testing::ramp(shape, at::kDouble, salt + 50);
    parameters.emplace_back(name, p);
  }
  return parameters;
}

const Named kAdamW{"adamw", {{"lr", 0.1}, {"weight_decay", 0.5}, {"betas", {0.9, 0.999}}, {"eps", 1e-8}}};

// Trap 33: each parameter in one group, decayed or not and at its own rate, as if it had an optimizer of its own.
TEST(ParameterGroups, Trap33EachParameterIsUpdatedByItsGroup) {
  ParameterRules rules;
  rules.decay_norm_and_bias = false;
  rules.lr_scales = {{"head.*", 0.25}, {"*.weight", 2}};
  const NamedParameters grouped = some_parameters(), single = some_parameters();
  const auto optimizer = make_grouped_optimizer(kAdamW, rules, grouped);
  for (int i = 0; i < 3; ++i) optimizer->step(0.5);
  const std::vector<std::pair<double, double>> expected = {{0.2, 0.5}, {0.1, 0}, {0.2, 0}, {0.025, 0.5}, {0.025, 0}};
  for (size_t p = 0; p < single.size(); ++p) {
    Named plan = kAdamW;
    plan.args["lr"] = expected[p].first;
    plan.args["weight_decay"] = expected[p].second;
    const auto alone = make_optimizer(plan, {single[p]});
    for (int i = 0; i < 3; ++i) alone->step(0.5);
    EXPECT_TRUE(at::equal(single[p].second, grouped[p].second)) << single[p].first;
  }
  EXPECT_EQ(optimizer->base_lr(), 0.1);
}

TEST(ParameterGroups, StateIsThatOfOneOptimizerInItsOrder) {
  ParameterRules rules;
  rules.decay_norm_and_bias = false;
  const auto names = [](const Optimizer& optimizer) {
    std::vector<std::string> found;
    for (const auto& [name, tensor] : optimizer.state()) found.push_back(name);
    return found;
  };
  EXPECT_EQ(names(*make_grouped_optimizer(kAdamW, rules, some_parameters())),
            names(*make_optimizer(kAdamW, some_parameters())));
}

// The groups that nanoGPT makes of GPT-2 and that are usual for ResNets: matrices decay, norms and biases do not.
TEST(ParameterGroups, OnlyTensorsOfTwoOrMoreDimensionsDecay) {
  ParameterRules rules;
  rules.decay_norm_and_bias = false;
  ModelPlan plan;
  plan.name = "resnet18";
  plan.args = {{"in_channels", 3}, {"num_classes", 10}};
  int64_t decayed = 0, kept = 0;
  for (const auto& [name, parameter] : named_parameters_of(*make_model(plan, 1, at::kFloat))) {
    const bool matrix = name.find("bn") == std::string::npos && name.find("downsample.1") == std::string::npos &&
                        !name.ends_with(".bias");
    EXPECT_EQ(group_of(rules, name, parameter).decayed, matrix) << name;
    ++(matrix ? decayed : kept);
  }
  EXPECT_EQ(decayed, 21);
  EXPECT_EQ(kept, 41);
}

TEST(ParameterGroups, APatternThatMatchesNothingIsAnError) {
  ParameterRules rules;
  rules.lr_scales = {{"haed.*", 0.1}};
  try {
    make_grouped_optimizer(kAdamW, rules, some_parameters());
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind, ErrorKind::kSpec);
    EXPECT_THAT(error.message, HasSubstr("haed.*"));
    EXPECT_EQ(error.where, "optimizer.lr_scales");
  }
}

}  // namespace
}  // namespace gputrain

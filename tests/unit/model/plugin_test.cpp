#include "model/plugin.h"

#include <fstream>

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include "support/golden.h"
#include "support/temp_dir.h"
#include "util/error.h"

namespace gputrain {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::string library(const std::string& name) {
  return std::string(GPUTRAIN_BINARY_DIR) + "/plugins/libtest_plugin_" + name + ".so";
}

ModelPlan tiny(const Json& args = {{"in", 4}}) {
  ModelPlan plan;
  plan.plugin = library("tiny");
  plan.args = args;
  return plan;
}

Error error_of(const ModelPlan& plan) {
  try {
    make_model(plan, 1, at::kFloat)->forward(at::ones({2, 4}));
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no error for " << plan.plugin << " " << plan.args.dump();
  return Error(ErrorKind::kInternal, "none");
}

std::vector<std::string> names_of(const std::vector<std::pair<std::string, at::Tensor>>& named) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : named) names.push_back(name);
  return names;
}

TEST(Plugin, NamesAreThoseItRegistered) {
  const auto model = make_model(tiny(), 1, at::kFloat);
  EXPECT_THAT(names_of(named_parameters_of(*model)),
              ElementsAre("scale", "fc1.weight", "fc1.bias", "norm.weight", "norm.bias", "fc2.weight", "fc2.bias"));
  EXPECT_THAT(names_of(named_buffers_of(*model)),
              ElementsAre("calls", "norm.running_mean", "norm.running_var", "norm.num_batches_tracked"));
}

TEST(Plugin, SeedDecidesTheWeights) {
  const auto weight = [](uint64_t seed) {
    return named_parameters_of(*make_model(tiny(), seed, at::kFloat))[1].second.detach();
  };
  EXPECT_TRUE(at::equal(weight(3), weight(3)));
  EXPECT_FALSE(at::equal(weight(3), weight(4)));
}

TEST(Plugin, TrainsInPlaceInTheWantedPrecision) {
  const auto model = make_model(tiny(), 1, at::kDouble);
  for (const auto& [name, buffer] : named_buffers_of(*model))
    EXPECT_EQ(buffer.scalar_type(), name == "calls" || name.ends_with("tracked") ? at::kLong : at::kDouble) << name;
  const at::Tensor x = testing::ramp({5, 4}, at::kDouble);
  const at::Tensor before = model->forward(x);
  ASSERT_EQ(before.scalar_type(), at::kDouble);
  before.square().sum().backward();
  for (const auto& [name, parameter] : named_parameters_of(*model)) EXPECT_TRUE(parameter.grad().defined()) << name;
  const at::NoGradGuard no_grad;
  for (const auto& [name, parameter] : named_parameters_of(*model)) at::Tensor(parameter).zero_();
  EXPECT_TRUE(at::equal(model->forward(x), at::zeros({5, 3}, at::kDouble)));
}

TEST(Plugin, ModeReachesItAndItsLayers) {
  const auto model = make_model(tiny({{"in", 4}, {"hidden", {64}}, {"dropout", 0.5}}), 1, at::kFloat);
  const at::Tensor x = testing::ramp({6, 4}, at::kFloat);
  EXPECT_FALSE(at::equal(model->forward(x), model->forward(x)));
  model->eval();
  const at::Tensor mean = named_buffers_of(*model)[1].second.clone();
  EXPECT_TRUE(at::equal(model->forward(x), model->forward(x)));
  EXPECT_TRUE(at::equal(mean, named_buffers_of(*model)[1].second)) << "BatchNorm was in training mode";
  model->train();
  EXPECT_FALSE(at::equal(model->forward(x), model->forward(x)));
}

TEST(Plugin, ArgumentsAreReadByNameAndType) {
  EXPECT_THAT(error_of(tiny(Json::object())).message, HasSubstr("argument in is missing (a whole number)"));
  EXPECT_THAT(error_of(tiny({{"in", "4"}})).message, HasSubstr("argument in must be a whole number"));
  EXPECT_THAT(error_of(tiny({{"in", 4.5}})).message, HasSubstr("argument in must be a whole number"));
  EXPECT_THAT(error_of(tiny({{"in", 4}, {"hidden", {1.5}}})).message,
              HasSubstr("argument hidden must be a list of whole numbers"));
  const Error unknown = error_of(tiny({{"in", 4}, {"drop_out", 0.5}}));
  EXPECT_EQ(unknown.kind, ErrorKind::kSpec);
  EXPECT_THAT(unknown.message, HasSubstr("there is no argument drop_out (there are dropout, fault, hidden, in)"));
  for (const Json& value : {Json(), Json{{"a", 1}}, Json{Json{1, 2}}, Json{1, "a"}}) {
    const Error error = error_of(tiny({{"in", 4}, {"hidden", value}}));
    EXPECT_EQ(error.kind, ErrorKind::kSpec);
    EXPECT_EQ(error.where, "model.args.hidden");
  }
}

TEST(Plugin, WholeNumbersAreNumbersAndTheEmptyListIsAnyList) {
  const ModelArgs args = plugin_args({{"a", 2}, {"b", {1, 2}}, {"c", Json::array()}, {"d", {0.5, 2}}, {"e", true}});
  EXPECT_EQ(args.number("a"), 2.0);
  EXPECT_THAT(args.numbers("b"), ElementsAre(1.0, 2.0));
  EXPECT_TRUE(args.texts("c").empty() && args.numbers("c").empty() && args.integers("c").empty());
  EXPECT_THAT(args.numbers("d"), ElementsAre(0.5, 2.0));
  EXPECT_TRUE(args.flag("e"));
  EXPECT_THROW(args.integer("e"), std::invalid_argument);
  EXPECT_NO_THROW(args.refuse_unknown());
}

TEST(Plugin, WhatItThrowsIsShown) {
  const Error constructor = error_of(tiny({{"in", 4}, {"fault", "constructor"}}));
  EXPECT_EQ(constructor.kind, ErrorKind::kSpec);
  EXPECT_EQ(constructor.where, "model.plugin");
  EXPECT_THAT(constructor.message, HasSubstr("libtest_plugin_tiny.so does not make its model: no such luck"));
  EXPECT_THAT(constructor.message, Not(HasSubstr("second line")));
  EXPECT_THAT(error_of(tiny({{"in", 4}, {"fault", "shape"}})).message, HasSubstr("does not make its model: "));
  EXPECT_THAT(error_of(tiny({{"in", 4}, {"fault", "forward"}})).message,
              HasSubstr("failed in forward: the moon is full"));
  EXPECT_THAT(error_of(tiny({{"in", 4}, {"fault", "nothing"}})).message, HasSubstr("returned no tensor"));
  EXPECT_THROW(make_model(tiny(), 1, at::kFloat)->forward(at::ones({2, 5})), c10::Error);
}

TEST(Plugin, WithNothingToTrainIsRefused) {
  const Error error = error_of(tiny({{"in", 4}, {"fault", "frozen"}}));
  EXPECT_EQ(error.kind, ErrorKind::kSpec);
  EXPECT_EQ(error.where, "model.plugin");
  EXPECT_THAT(error.message, HasSubstr("libtest_plugin_tiny.so has no parameter with requires_grad: nothing to train"));
}

TEST(Plugin, AnotherVersionIsRefusedBeforeItsCodeRuns) {
  ModelPlan plan;
  plan.plugin = library("old");  // aborts when it is loaded
  const Error error = error_of(plan);
  EXPECT_EQ(error.kind, ErrorKind::kSpec);
  EXPECT_THAT(error.message, HasSubstr("LibTorch 1.13.1"));
  EXPECT_THAT(error.message, HasSubstr(GPUTRAIN_PLUGIN_ABI));
  EXPECT_THAT(error.hint, HasSubstr("build the plug-in again"));
}

TEST(Plugin, ALibraryThatIsNoneIsToldHowToBecomeOne) {
  ModelPlan plan;
  plan.plugin = library("bare");
  const Error error = error_of(plan);
  EXPECT_EQ(error.kind, ErrorKind::kSpec);
  EXPECT_THAT(error.hint, HasSubstr("GPUTRAIN_MODEL"));
}

TEST(Plugin, FilesThatAreNoLibraries) {
  const testing::TempDir directory;
  ModelPlan plan;
  plan.plugin = directory / "libmissing.so";
  EXPECT_EQ(error_of(plan).kind, ErrorKind::kData);
  EXPECT_THAT(error_of(plan).message, HasSubstr("libmissing.so"));
  std::ofstream(plan.plugin) << "#include <torch/torch.h>\n";
  EXPECT_EQ(error_of(plan).kind, ErrorKind::kData);
  EXPECT_THAT(error_of(plan).message, HasSubstr("is text (it begins with \"#include <torch/torch.h>\"), not a shared"));
  // The mark is there, the rest is not: the loader's own words.
  std::ofstream(plan.plugin, std::ios::trunc) << "\177ELF" << GPUTRAIN_PLUGIN_ABI;
  EXPECT_EQ(error_of(plan).kind, ErrorKind::kSpec);
  EXPECT_THAT(error_of(plan).message, HasSubstr("cannot be loaded: "));
}

}  // namespace
}  // namespace gputrain

// Models against their Python twins: names, initial weights to the bit, logits, gradients, buffers.
#include "model/model.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>

#include "spec/catalog/catalog.h"
#include "support/golden.h"
#include "util/error.h"

namespace gputrain {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAreArray;

ModelPlan plan_of(const Json& golden) {
  return {.name = golden.at("name").get<std::string>(), .args = golden.at("args")};
}

class TwinTest : public ::testing::TestWithParam<int> {
 protected:
  TwinTest() : file_(testing::golden("models.json")), golden_(file_.at("models").at(GetParam())) {}

  // The passes were recorded with AVX2's weights: without AVX2 they start from ones that differ in the last bit of a
  // float.
  static double tolerance() { return at::get_cpu_capability() == "DEFAULT" ? 1e-4 : 1e-11; }

  std::shared_ptr<Model> make(at::ScalarType type) {
    return make_model(plan_of(golden_), golden_.at("seed").get<uint64_t>(), type);
  }

  bool takes_tokens() const { return golden_.at("args").contains("vocab_size"); }
  int64_t classes() const { return golden_.at("args").at(takes_tokens() ? "vocab_size" : "num_classes"); }

  at::Tensor golden_inputs() const {
    const at::Tensor ramp = testing::ramp(golden_.at("input_shape").get<std::vector<int64_t>>(), at::kDouble);
    return takes_tokens() ? ramp.mul(2147483648.0).to(at::kLong).remainder(classes()) : ramp;
  }

  // Targets count up modulo the number of classes, along the rows of logits whose classes are put last.
  at::Tensor golden_loss(const at::Tensor& logits) const {
    const at::Tensor rows = logits.movedim(takes_tokens() ? 2 : 1, -1).reshape({-1, classes()});
    const at::Tensor targets = at::arange(rows.size(0), at::kLong).remainder(classes());
    return at::cross_entropy_loss(rows, targets, {}, at::Reduction::Sum);
  }

  Json file_, golden_;
};

TEST_P(TwinTest, NamesAndShapesAreThoseOfPython) {
  const auto model = make(at::kFloat);
  const auto parameters = named_parameters_of(*model);
  const Json& expected = golden_.at("parameters");
  ASSERT_EQ(parameters.size(), expected.size());
  for (size_t i = 0; i < parameters.size(); ++i) {
    EXPECT_EQ(parameters[i].first, expected[i][0].get<std::string>()) << "place " << i;
    EXPECT_EQ(parameters[i].second.sizes().vec(), expected[i][1].get<std::vector<int64_t>>()) << parameters[i].first;
  }
}

TEST_P(TwinTest, InitialWeightsAreThoseOfPythonToTheBit) {
  const auto model = make(at::kFloat);
  const auto parameters = named_parameters_of(*model);
  const Json& expected = testing::for_this_cpu(file_.at("weights")).at(GetParam());
  ASSERT_EQ(parameters.size(), expected.size());
  for (size_t i = 0; i < parameters.size(); ++i) {
    EXPECT_EQ(testing::checksum(parameters[i].second), expected[i].get<std::string>()) << parameters[i].first;
  }
}

TEST_P(TwinTest, DoubleWeightsAreTheFloatOnes) {
  const auto floats = named_parameters_of(*make(at::kFloat));
  const auto doubles = named_parameters_of(*make(at::kDouble));
  ASSERT_EQ(floats.size(), doubles.size());
  for (size_t i = 0; i < floats.size(); ++i) {
    ASSERT_EQ(doubles[i].second.scalar_type(), at::kDouble);
    EXPECT_TRUE(at::equal(doubles[i].second, floats[i].second.to(at::kDouble))) << floats[i].first;
    EXPECT_TRUE(doubles[i].second.requires_grad() && doubles[i].second.is_leaf()) << floats[i].first;
  }
}

TEST_P(TwinTest, TrainingPassGradientsBuffersAndEvaluationAreThoseOfPython) {
  const auto model = make(at::kDouble);
  const at::Tensor inputs = golden_inputs();
  const auto shape = golden_.at("logits_shape").get<std::vector<int64_t>>();

  model->train();
  at::manual_seed(99);
  const at::Tensor logits = model->forward(inputs);
  const at::Tensor loss = golden_loss(logits);
  loss.backward();
  ASSERT_EQ(logits.sizes().vec(), shape);
  const at::Tensor expected = testing::from_hex(golden_.at("logits"), at::kDouble, shape);
  EXPECT_LT(testing::relative_difference(logits, expected), tolerance());
  EXPECT_NEAR(loss.item<double>(), golden_.at("loss").get<double>(), 10 * tolerance());

  const auto parameters = named_parameters_of(*model);
  for (size_t i = 0; i < parameters.size(); ++i) {
    const double norm = golden_.at("grad_norms")[i].get<double>();
    ASSERT_TRUE(parameters[i].second.grad().defined()) << parameters[i].first;
    EXPECT_NEAR(parameters[i].second.grad().norm().item<double>(), norm, 100 * tolerance() * (1 + norm))
        << parameters[i].first;
  }

  const auto buffers = named_buffers_of(*model);
  ASSERT_EQ(buffers.size(), golden_.at("buffers").size());
  for (size_t i = 0; i < buffers.size(); ++i) {
    const Json& buffer = golden_.at("buffers")[i];
    EXPECT_EQ(buffers[i].first, buffer[0].get<std::string>());
    EXPECT_EQ(buffers[i].second.scalar_type(), buffer[1] == "int64" ? at::kLong : at::kDouble) << buffers[i].first;
    const double sum = buffer[2].get<double>();
    EXPECT_NEAR(buffers[i].second.to(at::kDouble).sum().item<double>(), sum, 100 * tolerance() * (1 + std::abs(sum)))
        << buffers[i].first;
  }

  model->eval();
  const at::NoGradGuard no_grad;
  const at::Tensor after = testing::from_hex(golden_.at("eval_logits"), at::kDouble, shape);
  EXPECT_LT(testing::relative_difference(model->forward(inputs), after), tolerance());
}

std::string golden_name(const ::testing::TestParamInfo<int>& info) {
  static constexpr const char* kNames[] = {"MlpTwoHidden",
                                           "MlpDropout",
                                           "SmallCnn",
                                           "SmallCnnDropout",
                                           "ResNet18Colour",
                                           "ResNet18OneChannel",
                                           "ResNet50Colour",
                                           "ResNet50FourChannels",
                                           "ResNet34",
                                           "ResNet101",
                                           "VitBase",
                                           "VitSmallDropout",
                                           "Gpt",
                                           "GptDropout",
                                           "UNet2d",
                                           "UNet2dBatchNorm",
                                           "UNet3d",
                                           "UNet3dBatchNorm"};
  return kNames[info.param];
}

INSTANTIATE_TEST_SUITE_P(Golden, TwinTest, ::testing::Range(0, 18), golden_name);

TEST(ModelGoldens, AreAllCovered) {
  EXPECT_EQ(testing::golden("models.json").at("models").size(), 18u);
}

TEST(MakeModel, BindsExactlyTheCatalog) {
  EXPECT_THAT(model_names(), UnorderedElementsAreArray(names_of(CatalogKind::kModel)));
}

Json mlp_args() {
  return {{"in_features", 4}, {"hidden", {8}}, {"num_classes", 3}, {"dropout", 0.0}};
}

TEST(MakeModel, SeedDecidesTheWeights) {
  const auto weight = [](uint64_t seed) {
    return named_parameters_of(*make_model({.name = "mlp", .args = mlp_args()}, seed, at::kFloat))[0].second;
  };
  EXPECT_TRUE(at::equal(weight(3), weight(3)));
  EXPECT_FALSE(at::equal(weight(3), weight(4)));
}

Error error_of(const ModelPlan& plan) {
  try {
    make_model(plan, 1, at::kFloat);
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no error for " << plan.name << " " << plan.args.dump();
  return Error(ErrorKind::kInternal, "none");
}

TEST(MakeModel, UnknownNameIsASpecErrorWithTheNearest) {
  const Error error = error_of({.name = "resnet19"});
  EXPECT_EQ(error.kind, ErrorKind::kSpec);
  EXPECT_THAT(error.message, HasSubstr("unknown model resnet19"));
  EXPECT_THAT(error.hint, HasSubstr("resnet18"));
}

TEST(MakeModel, UnknownAndMistypedArgumentsAreSpecErrors) {
  Json args = mlp_args();
  args["num_clases"] = 3;
  EXPECT_EQ(error_of({.name = "mlp", .args = args}).kind, ErrorKind::kSpec);
  EXPECT_THAT(error_of({.name = "mlp", .args = args}).message, HasSubstr("mlp has no argument num_clases"));
  EXPECT_THAT(error_of({.name = "mlp", .args = args}).hint, HasSubstr("num_classes"));

  args = mlp_args();
  args["hidden"] = {8, 2.5};
  EXPECT_EQ(error_of({.name = "mlp", .args = args}).kind, ErrorKind::kSpec);
  EXPECT_THAT(error_of({.name = "mlp", .args = args}).message,
              HasSubstr("mlp.hidden must be a list of integers, got [8,2.5]"));

  args = mlp_args();
  args["in_features"] = "4";
  EXPECT_THAT(error_of({.name = "mlp", .args = args}).message,
              HasSubstr("mlp.in_features must be an integer, got \"4\""));

  args = mlp_args();
  args["dropout"] = nullptr;
  EXPECT_THAT(error_of({.name = "mlp", .args = args}).message, HasSubstr("mlp.dropout must be a number, got null"));
}

TEST(MakeModel, OmittedDropoutIsTheCatalogsZero) {
  Json args = mlp_args();
  args.erase("dropout");
  const auto model = make_model({.name = "mlp", .args = args}, 1, at::kFloat);
  const at::Tensor x = testing::ramp({2, 4}, at::kFloat);
  const at::Tensor training = model->forward(x);
  model->eval();
  EXPECT_TRUE(at::equal(training, model->forward(x)));
}

TEST(Dropout, ActsInTrainingOnlyAndFollowsTheGenerator) {
  Json args = mlp_args();
  args["hidden"] = {64};
  args["dropout"] = 0.5;
  const auto model = make_model({.name = "mlp", .args = args}, 1, at::kFloat);
  const at::Tensor x = testing::ramp({2, 4}, at::kFloat);
  const auto pass = [&](uint64_t seed) {
    at::manual_seed(seed);
    return model->forward(x);
  };
  EXPECT_TRUE(at::equal(pass(1), pass(1)));
  EXPECT_FALSE(at::equal(pass(1), pass(2)));
  model->eval();
  EXPECT_TRUE(at::equal(pass(1), pass(2)));
}

// A shared weight, a frozen one, and two distinct parameters in one storage.
class OddModel : public Model {
 public:
  OddModel() {
    const at::Tensor shared = register_parameter("first", at::ones({2}).requires_grad_());
    register_parameter("again", shared);
    register_parameter("frozen", at::ones({2}), /*requires_grad=*/false);
    const at::Tensor flat = at::zeros({4});
    register_parameter("left", flat.narrow(0, 0, 2));
    register_parameter("right", flat.narrow(0, 2, 2));
    register_buffer("steps", at::zeros({}, at::kLong));
  }
  at::Tensor forward(const at::Tensor& inputs) override { return inputs; }
};

TEST(NamedParameters, SharedCountsOnceUnderItsFirstNameFrozenNever) {
  const OddModel model;
  std::vector<std::string> names;
  for (const auto& [name, tensor] : named_parameters_of(model)) names.push_back(name);
  EXPECT_THAT(names, ElementsAre("first", "left", "right"));
  const auto buffers = named_buffers_of(model);
  ASSERT_EQ(buffers.size(), 1u);
  EXPECT_EQ(buffers[0].first, "steps");
}

TEST(NamedParameters, AreTheModelsOwnTensors) {
  const auto model = make_model({.name = "mlp", .args = mlp_args()}, 1, at::kFloat);
  const at::Tensor x = testing::ramp({2, 4}, at::kFloat);
  {
    const at::NoGradGuard no_grad;
    for (auto& [name, tensor] : named_parameters_of(*model)) tensor.zero_();
  }
  EXPECT_TRUE(at::equal(model->forward(x), at::zeros({2, 3})));
}

}  // namespace
}  // namespace gputrain

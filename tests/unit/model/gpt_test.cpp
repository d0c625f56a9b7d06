// What is GPT-2's own; names, weights and results against the Python twin are model_test.cpp's.
#include "model/gpt.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/golden.h"
#include "util/error.h"

namespace gputrain {
namespace {

using ::testing::HasSubstr;

Json small_args() {
  return {{"size", "custom"}, {"layers", 2}, {"heads", 2}, {"width", 8}, {"context", 6}, {"vocab_size", 10}};
}

std::shared_ptr<Model> small_gpt(at::ScalarType type = at::kFloat) {
  return make_model({.name = "gpt", .args = small_args()}, 3, type);
}

GptLayout layout_of(const Json& args) {
  return gpt_layout(NamedArgs(CatalogKind::kModel, "gpt", args));
}

template <typename Function>
Error error_of(const Function& function) {
  try {
    function();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no error";
  return Error(ErrorKind::kInternal, "none");
}

Error layout_error(const Json& args) {
  return error_of([&] { layout_of(args); });
}

Error forward_error(const at::Tensor& tokens) {
  return error_of([&] { small_gpt()->forward(tokens); });
}

// Table 2 of the paper, whose number of heads follows from 64 dimensions a head.
TEST(GptLayout, NamedSizesAreThePapers) {
  EXPECT_EQ(layout_of({}), (GptLayout{.layers = 12, .heads = 12, .width = 768}));
  EXPECT_EQ(layout_of({{"size", "gpt2"}}), (GptLayout{.layers = 12, .heads = 12, .width = 768}));
  EXPECT_EQ(layout_of({{"size", "gpt2-medium"}}), (GptLayout{.layers = 24, .heads = 16, .width = 1024}));
  EXPECT_EQ(layout_of({{"size", "gpt2-large"}}), (GptLayout{.layers = 36, .heads = 20, .width = 1280}));
  EXPECT_EQ(layout_of({{"size", "gpt2-xl"}}), (GptLayout{.layers = 48, .heads = 25, .width = 1600}));
}

TEST(GptLayout, ACustomSizeIsWhatItsNumbersSay) {
  EXPECT_EQ(layout_of(small_args()), (GptLayout{.layers = 2, .heads = 2, .width = 8}));
}

TEST(GptLayout, ANumberThatRepeatsTheSizesIsNoContradiction) {
  EXPECT_EQ(layout_of({{"size", "gpt2-medium"}, {"layers", 24}}), layout_of({{"size", "gpt2-medium"}}));
}

TEST(GptLayout, ANamedSizeWithAnotherNumberIsASpecError) {
  const Error error = layout_error({{"size", "gpt2-medium"}, {"heads", 12}});
  EXPECT_EQ(error.kind, ErrorKind::kSpec);
  EXPECT_EQ(error.message, "gpt2-medium has heads 16, not 12");
  EXPECT_EQ(error.where, "model.args.heads");
  EXPECT_THAT(error.hint, HasSubstr("custom"));
}

TEST(GptLayout, ACustomSizeNeedsItsNumbers) {
  Json args = small_args();
  args.erase("width");
  const Error error = layout_error(args);
  EXPECT_EQ(error.kind, ErrorKind::kSpec);
  EXPECT_EQ(error.message, "a gpt of custom size needs the argument width");
  EXPECT_EQ(error.where, "model.args.width");
}

TEST(GptLayout, HeadsDivideTheWidth) {
  Json args = small_args();
  args["heads"] = 3;
  EXPECT_EQ(layout_error(args).message, "a width of 8 does not split into 3 attention heads");
  args["heads"] = 0;
  EXPECT_EQ(layout_error(args).kind, ErrorKind::kSpec);
}

TEST(GptLayout, UnknownSizeIsASpecError) {
  EXPECT_EQ(layout_error({{"size", "gpt3"}}).message, "gpt has no size gpt3");
}

std::vector<std::string> names_of(const Model& model) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : named_parameters_of(model)) names.push_back(name);
  return names;
}

TEST(Gpt, Trap34TheTiedEmbeddingCountsOnceUnderItsFirstName) {
  const auto model = small_gpt();
  const std::vector<std::string> names = names_of(*model);
  EXPECT_EQ(std::count(names.begin(), names.end(), "transformer.wte.weight"), 1);
  EXPECT_EQ(std::count(names.begin(), names.end(), "lm_head.weight"), 0);
  int64_t elements = 0;
  for (const auto& [name, tensor] : named_parameters_of(*model)) elements += tensor.numel();
  const int64_t block = 12 * 8 * 8 + 13 * 8;  // GPT-2's well-known count: four matrices, their biases, two norms
  EXPECT_EQ(elements, 10 * 8 + 6 * 8 + 2 * block + 2 * 8);
}

TEST(Gpt, Trap34TheGradientOfTheTiedEmbeddingHasBothParts) {
  const auto model = small_gpt(at::kDouble);
  const at::Tensor weight = named_parameters_of(*model)[0].second;
  const at::Tensor tokens = at::tensor({1, 2, 3}, at::kLong).view({1, 3});
  const auto loss = [&] { return model->forward(tokens).pow(2).sum(); };
  loss().backward();
  // Rows 1 (read and predicted) and 9 (predicted only) against differences of the loss.
  for (const int64_t row : {1, 9}) {
    const double step = 1e-5, gradient = weight.grad()[row][0].item<double>();
    const at::NoGradGuard no_grad;
    weight[row][0] += step;
    const double above = loss().item<double>();
    weight[row][0] -= 2 * step;
    const double below = loss().item<double>();
    weight[row][0] += step;
    EXPECT_NEAR(gradient, (above - below) / (2 * step), 1e-7) << row;
  }
}

TEST(Gpt, StaysTiedInDoublePrecision) {
  const auto model = small_gpt(at::kDouble);
  const auto named = model->named_parameters();
  EXPECT_EQ(named["lm_head.weight"].unsafeGetTensorImpl(), named["transformer.wte.weight"].unsafeGetTensorImpl());
}

TEST(Gpt, LaterTokensDoNotReachEarlierLogits) {
  const auto model = small_gpt();
  const at::Tensor one = at::tensor({1, 2, 3, 4}, at::kLong).view({1, 4});
  const at::Tensor other = at::tensor({1, 2, 3, 9}, at::kLong).view({1, 4});
  const at::Tensor a = model->forward(one), b = model->forward(other);
  EXPECT_EQ(a.sizes(), (std::vector<int64_t>{1, 4, 10}));
  EXPECT_TRUE(at::allclose(a.narrow(1, 0, 3), b.narrow(1, 0, 3)));
  EXPECT_FALSE(at::allclose(a.select(1, 3), b.select(1, 3)));
}

TEST(Gpt, TakesInt32Tokens) {
  const auto model = small_gpt();
  const at::Tensor tokens = at::tensor({1, 2, 3}, at::kLong).view({1, 3});
  EXPECT_TRUE(at::equal(model->forward(tokens), model->forward(tokens.to(at::kInt))));
}

TEST(Gpt, TrainsUnderBf16Autocast) {
  const auto model = small_gpt();
  const at::Tensor tokens = at::tensor({1, 2, 3, 4}, at::kLong).view({1, 4});
  const at::Tensor expected = model->forward(tokens);
  at::autocast::set_autocast_enabled(at::kCPU, true);
  at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
  const at::Tensor logits = model->forward(tokens);
  at::autocast::set_autocast_enabled(at::kCPU, false);
  at::autocast::clear_cache();
  EXPECT_EQ(logits.scalar_type(), at::kBFloat16);
  EXPECT_LT(testing::relative_difference(logits, expected), 2e-2);
  logits.to(at::kFloat).pow(2).sum().backward();
  for (const auto& [name, tensor] : named_parameters_of(*model)) {
    ASSERT_TRUE(tensor.grad().defined()) << name;
    EXPECT_EQ(tensor.grad().scalar_type(), at::kFloat) << name;
    EXPECT_TRUE(tensor.grad().isfinite().all().item<bool>()) << name;
  }
}

TEST(Gpt, ATokenOutsideTheVocabularyIsNamed) {
  const Error error = forward_error(at::tensor({1, 2, 3, 4, 10, 5}, at::kLong).view({2, 3}));
  EXPECT_EQ(error.kind, ErrorKind::kData);
  EXPECT_EQ(error.message, "token 10 (place 2 of sample 2 of a batch) is not in a vocabulary of 10");
  EXPECT_THAT(forward_error(at::full({1, 1}, -1, at::kLong)).message, HasSubstr("token -1 (place 1 of sample 1 "));
}

TEST(Gpt, MoreTokensThanTheContextAreADataError) {
  EXPECT_EQ(small_gpt()->forward(at::zeros({1, 6}, at::kLong)).size(1), 6);
  const Error error = forward_error(at::zeros({1, 7}, at::kLong));
  EXPECT_EQ(error.kind, ErrorKind::kData);
  EXPECT_EQ(error.message, "gpt sees at most 6 tokens at once, the data brings 7");
  EXPECT_EQ(error.where, "model.args.context");
}

TEST(Gpt, OtherTypesAndShapesAreDataErrors) {
  EXPECT_EQ(forward_error(at::zeros({1, 4})).message,
            "gpt takes rows of int64 tokens, the data brings samples of [4] of Float");
  EXPECT_EQ(forward_error(at::zeros({1, 2, 3}, at::kLong)).kind, ErrorKind::kData);
  EXPECT_EQ(forward_error(at::zeros({1}, at::kLong)).kind, ErrorKind::kData);
  EXPECT_EQ(forward_error(at::zeros({2, 0}, at::kLong)).kind, ErrorKind::kData);
}

TEST(Gpt, PublicFilesMayOmitThePrefixAndHoldMasks) {
  const auto model = small_gpt();
  EXPECT_EQ(model->base_prefix(), "transformer.");
  EXPECT_THAT(model->surplus_patterns(), ::testing::Contains("transformer.h.*.attn.bias"));
  EXPECT_EQ(make_model({.name = "mlp"}, 1, at::kFloat)->base_prefix(), "");
  EXPECT_TRUE(make_model({.name = "mlp"}, 1, at::kFloat)->surplus_patterns().empty());
}

}  // namespace
}  // namespace gputrain

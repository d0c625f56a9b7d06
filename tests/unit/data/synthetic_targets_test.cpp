// format: synthetic for each task.
#include <ATen/ATen.h>

#include "unit/data/data_files.h"

namespace gputrain {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using namespace test;

std::unique_ptr<Source> open(const std::string& targets, const std::vector<int64_t>& shape, Task task,
                             int64_t samples = 300, std::optional<int64_t> known = {}) {
  const Json args{{"samples", samples}, {"shape", shape}, {"num_classes", 5}, {"targets", targets}};
  return open_source({"synthetic", args}, "data.train", {.task = task, .classes = known, .ignore_index = {}});
}

Batch all_of(const Source& source) {
  LoaderOptions options;
  options.global_batch = source.size();
  options.workers = 0;
  return make_eval_loader(source, {}, options)->next_step().value().at(0);
}

// Of the first 100 samples, whatever the number of samples, and not all alike.
void expect_function_of_the_id(const Source& source, const Source& longer) {
  const Batch one = all_of(source), two = all_of(longer);
  EXPECT_TRUE(one.inputs.equal(two.inputs.narrow(0, 0, source.size())));
  EXPECT_TRUE(one.targets.equal(two.targets.narrow(0, 0, source.size())));
  EXPECT_FALSE(one.inputs[0].equal(one.inputs[1]));
  EXPECT_NE(source.fingerprint(), longer.fingerprint());
}

void expect_all_classes(const at::Tensor& values) {
  ASSERT_EQ(values.scalar_type(), at::kLong);
  const at::Tensor counts = values.flatten().bincount();
  ASSERT_EQ(counts.size(0), 5);
  EXPECT_GT(counts.min().item<int64_t>(), values.numel() / 10);
}

TEST(SyntheticTargets, Tokens) {
  const auto source = open("tokens", {16}, Task::kLanguageModel);
  EXPECT_EQ(source->sample_type(), at::kLong);
  const Batch batch = all_of(*source);
  ASSERT_EQ(batch.inputs.sizes(), (std::vector<int64_t>{300, 16}));
  expect_all_classes(batch.inputs);
  expect_all_classes(batch.targets);
  EXPECT_TRUE(batch.inputs.narrow(1, 1, 15).equal(batch.targets.narrow(1, 0, 15)));  // one stream, shifted
  EXPECT_EQ(source->fingerprint()["dtype"], "int64");
  expect_function_of_the_id(*source, *open("tokens", {16}, Task::kLanguageModel, 400));
  EXPECT_TRUE(all_of(*open("tokens", {1}, Task::kLanguageModel)).targets.ge(0).all().item<bool>());
}

TEST(SyntheticTargets, Masks) {
  const auto source = open("mask", {3, 4, 6}, Task::kSegmentation);
  const Batch batch = all_of(*source);
  ASSERT_EQ(batch.inputs.sizes(), (std::vector<int64_t>{300, 3, 4, 6}));
  ASSERT_EQ(batch.targets.sizes(), (std::vector<int64_t>{300, 4, 6}));
  EXPECT_EQ(batch.inputs.scalar_type(), at::kFloat);
  expect_all_classes(batch.targets);
  expect_function_of_the_id(*source, *open("mask", {3, 4, 6}, Task::kSegmentation, 400));
  EXPECT_EQ(all_of(*open("mask", {1, 2, 4, 6}, Task::kSegmentation)).targets.dim(), 4);
}

TEST(SyntheticTargets, MasksMoveWithTheirImages) {
  const auto source = open("mask", {1, 4, 6}, Task::kSegmentation);
  LoaderOptions options;
  options.global_batch = 300;
  options.shuffle = false;
  const auto loader = make_loader(*source, {{"random_horizontal_flip", {{"p", 1.0}}}}, options);
  const auto step = loader->next_step();
  EXPECT_TRUE(step.value()[0].targets.equal(all_of(*source).targets.flip({2})));
  EXPECT_TRUE(step.value()[0].inputs.equal(all_of(*source).inputs.flip({3})));
}

TEST(SyntheticTargets, Values) {
  const auto source = open("values", {7}, Task::kRegression);
  const Batch batch = all_of(*source);
  ASSERT_EQ(batch.targets.sizes(), (std::vector<int64_t>{300, 5}));
  EXPECT_EQ(batch.targets.scalar_type(), at::kFloat);
  EXPECT_NEAR(batch.targets.mean().item<double>(), 0, 0.1);
  EXPECT_LT(batch.targets.abs().max().item<double>(), 1 + 1e-9);
  EXPECT_GT(batch.targets.std().item<double>(), 0.5);
  expect_function_of_the_id(*source, *open("values", {7}, Task::kRegression, 400));
}

TEST(SyntheticTargets, ClassIsTheDefault) {
  const Json args{{"samples", 50}, {"shape", {3}}, {"num_classes", 5}};
  const auto source = open_source({"synthetic", args}, "data.train");
  const Batch one = all_of(*source), two = all_of(*open("class", {3}, Task::kClassification, 50));
  EXPECT_TRUE(one.inputs.equal(two.inputs) && one.targets.equal(two.targets));
  EXPECT_FALSE(source->fingerprint().contains("targets"));  // as before there were others
}

TEST(SyntheticTargets, ArgumentsAreChecked) {
  const auto spec_error = [](const std::string& targets, const std::vector<int64_t>& shape, Task task) {
    const Error error = error_of([&] { open(targets, shape, task); });
    EXPECT_EQ(error.kind, ErrorKind::kSpec);
    return error.render();
  };
  EXPECT_THAT(spec_error("masks", {1, 4, 4}, Task::kSegmentation),
              AllOf(HasSubstr("data.train.targets 'masks'"), HasSubstr("class, tokens, mask or values")));
  EXPECT_THAT(spec_error("mask", {4}, Task::kSegmentation), HasSubstr("data.train.shape is [channels, height, width]"));
  EXPECT_THAT(spec_error("tokens", {4, 4}, Task::kLanguageModel), HasSubstr("data.train.shape of tokens is [length]"));
  EXPECT_THAT(spec_error("class", {4}, Task::kRegression),
              HasSubstr("data.train: targets: class is for the task classification, not for regression"));
  EXPECT_THAT(error_of([] { open("tokens", {4}, Task::kLanguageModel, 9, 4); }).message,
              HasSubstr("num_classes is 5, the model's only 4"));
}

}  // namespace
}  // namespace gputrain

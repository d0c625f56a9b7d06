// Losses and metrics of the tasks against Python (tests/parity/reference_objectives.py), and by hand.
#include "train/objective.h"

#include <cmath>
#include <set>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "spec/catalog/catalog.h"
#include "support/golden.h"
#include "train/objectives.h"
#include "util/error.h"

namespace gputrain {
namespace {

using ::testing::HasSubstr;

Task task_named(const std::string& name) {
  for (const Task task : {Task::kClassification, Task::kLanguageModel, Task::kSegmentation, Task::kRegression}) {
    if (to_string(task) == name) return task;
  }
  throw std::runtime_error(name);
}

struct Case {
  explicit Case(const Json& golden) : golden(golden) {
    plan.task = task_named(golden.at("task").get<std::string>());
    const Json& options = golden.at("options");
    plan.loss.label_smoothing = options.value("label_smoothing", 0.0);
    if (options.contains("ignore_index")) plan.loss.ignore_index = options.at("ignore_index").get<int64_t>();
    plan.loss.dice_weight = options.value("dice_weight", 1.0);
    plan.loss.distance = options.value("distance", "mse");
    const auto shape = golden.at("shape").get<std::vector<int64_t>>();
    outputs = at::tensor(golden.at("outputs").get<std::vector<double>>(), at::kDouble).reshape(shape);
    const auto target_shape = golden.at("target_shape").get<std::vector<int64_t>>();
    const auto values = golden.at("targets").get<std::vector<double>>();
    targets = at::tensor(values, at::kDouble).reshape(target_shape);
    if (plan.task != Task::kRegression) targets = targets.to(at::kLong);
    objective = make_objective(plan, classes_of_output(plan.task, outputs.sizes()));
    for (int64_t id = 0; id < outputs.size(0); ++id) ids.push_back(100 + id);
  }
  const Json& golden;
  RunPlan plan;
  at::Tensor outputs, targets;
  std::vector<int64_t> ids;
  std::unique_ptr<Objective> objective;
};

std::vector<Json> cases() {
  static const Json file = testing::golden("numerics.json");
  return file.at("objectives").get<std::vector<Json>>();
}

TEST(Objective, LossesCountsAndGradientsEqualPython) {
  const auto all = cases();
  ASSERT_EQ(all.size(), 10u);
  for (const Json& golden : all) {
    SCOPED_TRACE(golden.at("name").get<std::string>());
    const Case c(golden);
    const at::Tensor leaf = c.outputs.clone().set_requires_grad(true);
    c.objective->check(leaf, c.targets, c.ids);
    const at::Tensor loss = c.objective->loss_sum(leaf, c.targets);
    EXPECT_NEAR(loss.item<double>(), golden.at("loss").get<double>(), 1e-12 * std::abs(loss.item<double>()));
    EXPECT_EQ(c.objective->count(c.targets), golden.at("count").get<int64_t>());
    loss.backward();
    const at::Tensor wanted = at::tensor(golden.at("gradient").get<std::vector<double>>(), at::kDouble);
    EXPECT_LT(testing::relative_difference(leaf.grad().flatten(), wanted), 1e-12);
  }
}

// Traps 1, 2, 23, 24: whatever the cuts, sums add up to the whole batch's loss, gradient and metrics.
TEST(Objective, DoesNotDependOnHowSamplesAreCut) {
  for (const Json& golden : cases()) {
    SCOPED_TRACE(golden.at("name").get<std::string>());
    const Case c(golden);
    const at::Tensor leaf = c.outputs.clone().set_requires_grad(true);
    at::Tensor sums = at::zeros({c.objective->sum_count()}, at::kDouble);
    double loss = 0;
    int64_t count = 0;
    for (int64_t i = 0; i < leaf.size(0); ++i) {
      const at::Tensor row = leaf.slice(0, i, i + 1), target = c.targets.slice(0, i, i + 1);
      const at::Tensor part = c.objective->loss_sum(row, target);
      part.backward();
      loss += part.item<double>();
      count += c.objective->count(target);
      sums += c.objective->sums(row, target);
    }
    EXPECT_NEAR(loss, golden.at("loss").get<double>(), 1e-12 * std::abs(loss));
    EXPECT_EQ(count, golden.at("count").get<int64_t>());
    const at::Tensor wanted = at::tensor(golden.at("gradient").get<std::vector<double>>(), at::kDouble);
    EXPECT_LT(testing::relative_difference(leaf.grad().flatten(), wanted), 1e-12);
    EXPECT_LT(testing::relative_difference(sums, c.objective->sums(c.outputs, c.targets)), 1e-13);
    const Metrics metrics = c.objective->metrics(sums);
    EXPECT_EQ(metrics.samples, leaf.size(0));
    EXPECT_EQ(metrics.values.size(), golden.at("metrics").size());
    for (const auto& [name, value] : golden.at("metrics").items())
      EXPECT_NEAR(metrics.at(name), value.get<double>(), 1e-12) << name;
  }
}

TEST(Objective, CountIsKnownBeforeTheBatchUnlessTargetsAreIgnored) {
  for (const Json& golden : cases()) {
    const Case c(golden);
    auto shape = c.targets.sizes().vec();
    shape.erase(shape.begin());
    const std::optional<int64_t> known = c.objective->count_of(c.targets.size(0), shape);
    const bool hidden = c.plan.task == Task::kLanguageModel && c.plan.loss.ignore_index;
    EXPECT_EQ(known.has_value(), !hidden) << golden.at("name");
    if (known) {
      EXPECT_EQ(*known, c.objective->count(c.targets)) << golden.at("name");
    }
  }
}

TEST(Objective, NothingMeasuredIsNotANumber) {
  for (const Json& golden : cases()) {
    const Case c(golden);
    const Metrics metrics = c.objective->metrics(at::zeros({c.objective->sum_count()}, at::kDouble));
    for (const auto& [name, value] : metrics.values) EXPECT_TRUE(std::isnan(value)) << name;
    EXPECT_EQ(metrics.samples, 0);
  }
}

TEST(Objective, MetricsAreTheCatalogs) {
  for (const Json& golden : cases()) {
    Case c(golden);
    c.plan.top_k = 2;
    const auto objective = make_objective(c.plan, classes_of_output(c.plan.task, c.outputs.sizes()));
    std::set<std::string> ours, catalogs;
    for (const auto& [name, value] : objective->metrics(objective->sums(c.outputs, c.targets)).values)
      ours.insert(name);
    for (const CatalogEntry& entry : catalog()) {
      const bool has_task = std::ranges::find(entry.tasks, to_string(c.plan.task)) != entry.tasks.end();
      if (entry.kind == CatalogKind::kMetric && has_task) catalogs.insert(entry.name);
    }
    EXPECT_EQ(ours, catalogs) << golden.at("task");
  }
}

double top_k(int k, std::vector<double> logits, int64_t label) {
  const auto classes = static_cast<int64_t>(logits.size());
  const auto objective = make_classification({}, k, {classes});
  const at::Tensor outputs = at::tensor(logits, at::kDouble).unsqueeze(0);
  return objective->metrics(objective->sums(outputs, at::tensor({label}, at::kLong))).at("top_k_accuracy");
}

TEST(Classification, TopKCountsTiesInTheOrderOfClassesAndNanAsWrong) {
  EXPECT_EQ(top_k(2, {3, 1, 2, 0}, 2), 1);
  EXPECT_EQ(top_k(2, {3, 1, 2, 0}, 1), 0);
  EXPECT_EQ(top_k(2, {1, 1, 1, 1}, 1), 1);
  EXPECT_EQ(top_k(2, {1, 1, 1, 1}, 2), 0);
  EXPECT_EQ(top_k(3, {NAN, 1, 2, 0}, 1), 1);
  EXPECT_EQ(top_k(3, {NAN, NAN, NAN, NAN}, 0), 0);
}

TEST(Segmentation, ClassesThatNeitherOccurNorAreFoundAreLeftOut) {
  const auto objective = make_segmentation({}, {3});
  // Four pixels: found 0 0 1 1, wanted 0 1 1 1.
  at::Tensor outputs = at::zeros({1, 3, 1, 4}, at::kDouble);
  outputs[0][0][0].copy_(at::tensor({5.0, 5.0, 0.0, 0.0}, at::kDouble));
  outputs[0][1][0].copy_(at::tensor({0.0, 0.0, 5.0, 5.0}, at::kDouble));
  const at::Tensor targets = at::tensor({0, 1, 1, 1}, at::kLong).reshape({1, 1, 4});
  const Metrics metrics = objective->metrics(objective->sums(outputs, targets));
  EXPECT_DOUBLE_EQ(metrics.at("accuracy"), 0.75);
  EXPECT_DOUBLE_EQ(metrics.at("miou"), (1.0 / 2 + 2.0 / 3) / 2);
  EXPECT_DOUBLE_EQ(metrics.at("dice"), (2.0 / 3 + 4.0 / 5) / 2);
}

template <typename Body>
Error error_of(Body body) {
  try {
    body();
  } catch (const Error& error) {
    return error;
  }
  return Error(ErrorKind::kInternal, "nothing was thrown");
}

TEST(Objective, TargetsOutOfRangeNameSampleValueAndRemedy) {
  for (const int64_t bad : {int64_t{-1}, int64_t{3}, int64_t{-100}, int64_t{255}}) {  // PyTorch would skip a -100
    const Error error = error_of([&] {
      make_classification({}, 0, {3})->check(at::zeros({2, 3}), at::tensor({int64_t{1}, bad}, at::kLong), {40, 41});
    });
    EXPECT_EQ(error.kind, ErrorKind::kData);
    EXPECT_EQ(error.message,
              "sample 41 has the target " + std::to_string(bad) + ", but the model tells 3 classes apart");
    EXPECT_THAT(error.hint, HasSubstr("count from 0"));
  }
  LossPlan loss;
  loss.ignore_index = 255;
  const at::Tensor masks = at::tensor({0, 255, 2, 3}, at::kLong).reshape({2, 1, 2});
  const Error error = error_of([&] { make_segmentation(loss, {3})->check(at::zeros({2, 3, 1, 2}), masks, {7, 8}); });
  EXPECT_THAT(error.message, HasSubstr("sample 8 has the target 3"));
}

TEST(Objective, ShapesThatDoNotFitAreSpecErrorsWithBoth) {
  const at::Tensor labels = at::zeros({2}, at::kLong);
  EXPECT_EQ(error_of([&] {
              make_classification({}, 0, {3})->check(at::zeros({2, 4}), labels, {0, 1});
            }).kind,
            ErrorKind::kSpec);
  EXPECT_THAT(error_of([&] {
                make_language_model({}, {3})->check(at::zeros({2, 5, 3}), labels, {0, 1});
              }).message,
              AllOf(HasSubstr("[2, 5, 3]"), HasSubstr("[2]")));
  EXPECT_EQ(error_of([&] {
              make_segmentation({}, {3})->check(at::zeros({2, 3, 4, 4}), labels, {0, 1});
            }).kind,
            ErrorKind::kSpec);
  EXPECT_EQ(error_of([&] {
              make_regression({})->check(at::zeros({2, 3}), at::zeros({2, 2}), {0, 1});
            }).kind,
            ErrorKind::kSpec);
  make_regression({})->check(at::zeros({2, 1}), at::zeros({2}), {0, 1});
  EXPECT_EQ(error_of([&] { classes_of_output(Task::kLanguageModel, {2, 3}); }).kind, ErrorKind::kSpec);
  EXPECT_EQ(error_of([&] {
              make_classification({}, 0, {3})->check(at::zeros({1, 3}), at::zeros({1}), {0});
            }).kind,
            ErrorKind::kSpec)
      << "targets of floats";
}

TEST(Objective, LossesOfHalfOutputsAreFloat) {
  for (const Json& golden : cases()) {
    const Case c(golden);
    EXPECT_EQ(c.objective
                  ->loss_sum(c.outputs.to(at::kBFloat16),
                             c.targets.is_floating_point() ? c.targets.to(at::kFloat) : c.targets)
                  .scalar_type(),
              at::kFloat)
        << golden.at("name");
  }
}

}  // namespace
}  // namespace gputrain

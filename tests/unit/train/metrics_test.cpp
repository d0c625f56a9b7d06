#include "train/metrics.h"

#include <cmath>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "spec/catalog/catalog.h"
#include "support/golden.h"
#include "util/error.h"

namespace gputrain {
namespace {

using ::testing::UnorderedElementsAreArray;

TEST(MetricSums, EqualPython) {
  const Json golden = testing::golden("numerics.json").at("classification");
  MetricSums sums(at::kCPU);
  sums.add(testing::ramp({6, 4}, at::kFloat) * 4, at::arange(6, at::kLong).remainder(4));
  EXPECT_NEAR(sums.sums()[0].item<double>(), golden.at("loss_sum").get<double>(), 1e-5);
  EXPECT_EQ(sums.sums()[1].item<double>(), golden.at("correct").get<double>());
  EXPECT_EQ(sums.sums()[2].item<double>(), golden.at("count").get<double>());
}

TEST(MetricSums, ByHand) {
  MetricSums sums(at::kCPU);
  // Right, wrong, and a tie: the first of equal logits counts.
  sums.add(at::tensor({1.0, 0.0, 1.0, 0.0, 5.0, 5.0}, at::kDouble).reshape({3, 2}), at::tensor({0, 1, 0}, at::kLong));
  const Metrics metrics = metrics_of(sums.sums());
  EXPECT_EQ(metrics.count, 3);
  EXPECT_DOUBLE_EQ(metrics.accuracy, 2.0 / 3);
  EXPECT_NEAR(metrics.loss, (std::log1p(std::exp(-1.0)) * 2 + 1 + std::log(2.0)) / 3, 1e-14);
}

// Traps 23 and 24: 21 samples on 1, 2, 4 and 8 ranks, in batches of any size and with empty ones: the same metrics.
TEST(MetricSums, DoNotDependOnRanksOrBatches) {
  const at::Tensor logits = testing::ramp({21, 5}, at::kFloat) * 3, targets = at::arange(21, at::kLong).remainder(5);
  MetricSums whole(at::kCPU);
  whole.add(logits, targets);
  for (const int64_t ranks : {2, 4, 8}) {
    at::Tensor total = at::zeros({3}, at::kDouble);
    for (int64_t rank = 0; rank < ranks; ++rank) {
      MetricSums mine(at::kCPU);
      for (int64_t from = 21 * rank / ranks; from < 21 * (rank + 1) / ranks; from += 2) {
        const int64_t to = std::min(from + 2, 21 * (rank + 1) / ranks);
        mine.add(logits.slice(0, from, to), targets.slice(0, from, to));
      }
      mine.add(logits.slice(0, 0, 0), targets.slice(0, 0, 0));
      total += mine.sums();
    }
    EXPECT_NEAR(total[0].item<double>(), whole.sums()[0].item<double>(), 1e-13) << ranks;
    EXPECT_TRUE(at::equal(total.slice(0, 1), whole.sums().slice(0, 1))) << ranks;
  }
}

TEST(MetricSums, CountBeyondFloatsIntegers) {
  MetricSums sums(at::kCPU);
  at::Tensor count = sums.sums()[2];  // a view
  count.fill_(16777216.0);
  sums.add(at::zeros({1, 2}), at::zeros({1}, at::kLong));
  EXPECT_EQ(metrics_of(sums.sums()).count, 16777217);
}

TEST(MetricSums, KeepNoGraph) {
  MetricSums sums(at::kCPU);
  sums.add(at::zeros({1, 2}).set_requires_grad(true), at::zeros({1}, at::kLong));
  EXPECT_FALSE(sums.sums().requires_grad());
}

TEST(MetricsOf, NothingIsNotANumberAndNonFiniteLossesShow) {
  EXPECT_TRUE(std::isnan(metrics_of(at::zeros({3}, at::kDouble)).loss));
  EXPECT_TRUE(std::isnan(metrics_of(at::zeros({3}, at::kDouble)).accuracy));
  MetricSums sums(at::kCPU);
  sums.add(at::full({1, 2}, NAN), at::zeros({1}, at::kLong));
  EXPECT_TRUE(std::isnan(metrics_of(sums.sums()).loss));
}

TEST(MetricNames, AreTheCatalogsAndHaveValues) {
  EXPECT_THAT(metric_names(), UnorderedElementsAreArray(names_of(CatalogKind::kMetric)));
  const Metrics metrics{.loss = 0.5, .accuracy = 0.75, .count = 4};
  EXPECT_EQ(metric_value(metrics, "loss"), 0.5);
  EXPECT_EQ(metric_value(metrics, "accuracy"), 0.75);
  EXPECT_THROW(metric_value(metrics, "acuracy"), Error);
}

}  // namespace
}  // namespace gputrain

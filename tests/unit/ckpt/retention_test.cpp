#include "ckpt/retention.h"

#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gputrain {
namespace {

using ::testing::ElementsAre;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

RetentionCandidate with(int64_t step, double value, const char* name = "accuracy") {
  return {step, CheckpointMetric{name, value, true}};
}
RetentionCandidate without(int64_t step) {
  return {step, std::nullopt};
}

std::set<int64_t> keep(const std::vector<RetentionCandidate>& candidates, int keep_last, const char* keep_best = "",
                       bool larger = true) {
  CheckpointOptions options;
  options.keep_last = keep_last;
  options.keep_best = keep_best;
  options.best_is_larger = larger;
  return steps_to_keep(candidates, options);
}

TEST(Retention, KeepsTheNewestWhateverTheOrder) {
  EXPECT_THAT(keep({without(5), without(30), without(10), without(20)}, 2), ElementsAre(20, 30));
  EXPECT_THAT(keep({without(5)}, 3), ElementsAre(5));
  EXPECT_THAT(keep({}, 3), ElementsAre());
}

TEST(Retention, TheBestStaysBesideTheNewest) {
  const std::vector<RetentionCandidate> candidates = {with(10, 0.5), with(20, 0.9), with(30, 0.7), with(40, 0.6)};
  EXPECT_THAT(keep(candidates, 1, "accuracy", true), ElementsAre(20, 40));
  EXPECT_THAT(keep(candidates, 1, "accuracy", false), ElementsAre(10, 40));
  EXPECT_THAT(keep(candidates, 3, "accuracy", true), ElementsAre(20, 30, 40));
  EXPECT_THAT(keep(candidates, 1), ElementsAre(40));
}

TEST(Retention, NanIsNeverTheBest) {
  EXPECT_THAT(keep({with(10, kNan), with(20, 0.1), without(30)}, 1, "accuracy", true), ElementsAre(20, 30));
  EXPECT_THAT(keep({with(10, 0.1), with(20, kNan), without(30)}, 1, "accuracy", false), ElementsAre(10, 30));
  EXPECT_THAT(keep({with(10, kNan), without(30)}, 1, "accuracy"), ElementsAre(30));
}

TEST(Retention, OfEqualsTheEarliestIsTheBest) {
  EXPECT_THAT(keep({with(20, 0.5), with(10, 0.5), without(30)}, 1, "accuracy"), ElementsAre(10, 30));
  EXPECT_THAT(keep({with(10, 0.5), with(20, 0.5), without(30)}, 1, "accuracy"), ElementsAre(10, 30));
}

TEST(Retention, ValuesOfAnotherMetricDoNotCompete) {
  EXPECT_THAT(keep({with(10, 99.0, "loss"), with(20, 0.5), without(30)}, 1, "accuracy"), ElementsAre(20, 30));
  EXPECT_EQ(best_of({with(10, 1.0, "loss")}, {"accuracy"}), nullptr);
  RetentionCandidate elsewhere = with(10, 1.0);
  elsewhere.metric->measured_on = {{"samples", 2}};
  EXPECT_EQ(best_of({elsewhere}, {"accuracy"}), nullptr);
  EXPECT_NE(best_of({elsewhere}, *elsewhere.metric), nullptr);
}

}  // namespace
}  // namespace gputrain

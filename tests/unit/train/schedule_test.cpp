// Learning-rate factors: golden tables from torch.optim.lr_scheduler, and the corners that PyTorch has no word for.
#include "train/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "spec/catalog/catalog.h"
#include "support/golden.h"
#include "util/error.h"

namespace gputrain {
namespace {

using ::testing::DoubleNear;
using ::testing::UnorderedElementsAreArray;

Length steps(int64_t n) {
  return {n, Length::Unit::kSteps};
}
Length epochs(int64_t n) {
  return {n, Length::Unit::kEpochs};
}

TEST(ScheduleGolden, EqualsTorchsChainedSchedulers) {
  const Json tables = testing::golden("numerics.json").at("schedules");
  ASSERT_EQ(tables.size(), 23u);
  for (const Json& golden : tables) {
    const SchedulePlan plan{.name = golden.at("name").get<std::string>(),
                            .warmup = steps(golden.at("warmup").get<int64_t>()),
                            .warmup_start = golden.at("warmup_start").get<double>(),
                            .args = golden.at("args")};
    const Schedule schedule(plan, golden.at("total").get<int64_t>(), 7);
    ASSERT_GE(golden.at("table").size(), 5u);
    for (const Json& row : golden.at("table")) {
      // PyTorch chains its factors from step to step, so it is off by rounding.
      EXPECT_THAT(schedule.factor(row[0].get<int64_t>()), DoubleNear(row[1].get<double>(), 1e-13))
          << plan.name << " warmup " << plan.warmup.count << " u = " << row[0];
    }
  }
}

// T = 100, w = 20, by hand: u = 0, 1, w-1, w, w+1, middle of the decay, T-1, T.
TEST(Schedule, TablesByHand) {
  struct Row {
    std::string name;
    double first, second, before, peak, after, middle, last_update, end;
  };
  const double cos_1 = 0.2 + 0.8 * (1 + std::cos(M_PI / 80)) / 2,
               cos_79 = 0.2 + 0.8 * (1 + std::cos(M_PI * 79 / 80)) / 2;
  for (const Row& row : std::vector<Row>{{"constant", 0.1, 0.145, 0.955, 1, 1, 1, 1, 1},
                                         {"linear", 0.1, 0.145, 0.955, 1, 0.99, 0.6, 0.21, 0.2},
                                         {"cosine", 0.1, 0.145, 0.955, 1, cos_1, 0.6, cos_79, 0.2}}) {
    const Schedule schedule(
        {.name = row.name, .warmup = steps(20), .warmup_start = 0.1, .args = {{"final_factor", 0.2}}}, 100, 10);
    const auto near = [](double value) { return DoubleNear(value, 1e-15); };
    EXPECT_THAT(schedule.factor(0), near(row.first)) << row.name;
    EXPECT_THAT(schedule.factor(1), near(row.second)) << row.name;
    EXPECT_THAT(schedule.factor(19), near(row.before)) << row.name;
    EXPECT_EQ(schedule.factor(20), row.peak) << row.name;  // the peak is reached exactly, at w (trap 17)
    EXPECT_THAT(schedule.factor(21), near(row.after)) << row.name;
    EXPECT_THAT(schedule.factor(60), near(row.middle)) << row.name;
    EXPECT_THAT(schedule.factor(99), near(row.last_update)) << row.name;
    EXPECT_EQ(schedule.factor(100), row.end) << row.name;  // the end too
    EXPECT_EQ(schedule.factor(1000), row.end) << row.name;
  }
}

TEST(Schedule, EpochGranularityHoldsTheMissionsFirstFiveEpochs) {
  constexpr int64_t kStepsPerEpoch = 23;
  const Schedule schedule({.warmup = epochs(5), .warmup_start = 0.1, .granularity = Granularity::kEpoch},
                          8 * kStepsPerEpoch, kStepsPerEpoch);
  const double table[] = {0.1, 0.28, 0.46, 0.64, 0.82, 1.0, 1.0, 1.0};
  for (int64_t epoch = 0; epoch < 8; ++epoch) {
    for (const int64_t step : {int64_t{0}, int64_t{1}, kStepsPerEpoch - 1}) {
      EXPECT_THAT(schedule.factor(epoch * kStepsPerEpoch + step), DoubleNear(table[epoch], 1e-15))
          << "epoch " << epoch << " step " << step;
    }
  }
}

TEST(Schedule, EpochGranularityDecaysByWholeEpochs) {
  // T = 45 updates of 10 an epoch = 5 epochs begun; w = 1: positions 0, 1/4, 2/4, 3/4.
  const Schedule schedule(
      {.name = "linear", .warmup = epochs(1), .warmup_start = 0.5, .granularity = Granularity::kEpoch}, 45, 10);
  const double table[] = {0.5, 1.0, 0.75, 0.5, 0.25};
  for (int64_t u = 0; u < 45; ++u) EXPECT_EQ(schedule.factor(u), table[u / 10]) << u;
  EXPECT_EQ(schedule.factor(50), 0);
}

TEST(Schedule, EpochGranularityRoundsAWarmupInStepsUp) {
  const Schedule schedule({.warmup = steps(15), .warmup_start = 0, .granularity = Granularity::kEpoch}, 100, 10);
  EXPECT_EQ(schedule.factor(9), 0);
  EXPECT_EQ(schedule.factor(10), 0.5);
  EXPECT_EQ(schedule.factor(20), 1);
}

TEST(Schedule, WarmupInEpochsIsThatManySteps) {
  const SchedulePlan plan{.name = "cosine", .warmup = epochs(2), .warmup_start = 0.1};
  SchedulePlan in_steps = plan;
  in_steps.warmup = steps(14);
  const Schedule a(plan, 50, 7), b(in_steps, 50, 7);
  for (int64_t u = 0; u <= 50; ++u) EXPECT_EQ(a.factor(u), b.factor(u)) << u;
  EXPECT_LT(a.factor(13), 1);
  EXPECT_EQ(a.factor(14), 1);
}

TEST(Schedule, WithoutWarmupTheFirstUpdateHasTheFullRate) {
  for (const char* name : {"constant", "linear", "cosine"}) {
    EXPECT_EQ(Schedule({.name = name, .warmup = {}, .warmup_start = 0.1}, 10, 5).factor(0), 1) << name;
  }
}

TEST(Schedule, RunThatEndsInItsWarmupIsNotCompressed) {
  const SchedulePlan plan{.name = "linear", .warmup = steps(10), .warmup_start = 0, .args = {{"final_factor", 0.5}}};
  const Schedule schedule(plan, 4, 5);
  for (int64_t u = 0; u < 10; ++u) EXPECT_DOUBLE_EQ(schedule.factor(u), u / 10.0) << u;
  EXPECT_EQ(schedule.factor(10), 1);
  EXPECT_EQ(schedule.factor(11), 0.5);
  EXPECT_EQ(schedule.factor(99), 0.5);
  // T = w: the run ends where the peak would be.
  EXPECT_EQ(Schedule(plan, 10, 5).factor(10), 1);
}

// Accumulation, ranks and epochs never enter: trap 18 is kept by construction, trap 19 because there is no state.
TEST(Schedule, BadPlansAreRefused) {
  const auto kind_of = [](const SchedulePlan& plan, int64_t total, int64_t steps_per_epoch) {
    try {
      Schedule schedule(plan, total, steps_per_epoch);
    } catch (const Error& error) {
      return error.kind;
    }
    return ErrorKind::kOutput;
  };
  EXPECT_EQ(kind_of({.name = "cosin", .warmup = {}}, 10, 5), ErrorKind::kSpec);
  EXPECT_EQ(kind_of({}, 0, 5), ErrorKind::kInternal);
  EXPECT_EQ(kind_of({}, 10, 0), ErrorKind::kInternal);
}

TEST(Schedule, LengthsThatDoNotEndWithinTheRunAreRefused) {
  const auto error_of = [](const std::string& name, const Json& args) -> std::string {
    try {
      Schedule schedule({.name = name, .warmup = steps(10), .args = args}, 50, 5);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind, ErrorKind::kSpec);
      return error.render();
    }
    return "";
  };
  using ::testing::HasSubstr;
  EXPECT_THAT(error_of("step", {{"every", "51 steps"}}),
              HasSubstr("schedule.every: 51 steps does not end within the run"));
  EXPECT_THAT(error_of("multistep", {{"milestones", {"1 epoch", "11 epochs"}}}),
              HasSubstr("schedule.milestones: 11 epochs does not end within the run: that is 55 of the 50"));
  EXPECT_THAT(error_of("multistep", {{"milestones", {"20 steps", "20 steps"}}}),
              HasSubstr("later than the one before"));
  EXPECT_THAT(error_of("multistep", {{"milestones", {"8 epochs", "35 steps"}}}),
              HasSubstr("later than the one before"));
  EXPECT_THAT(error_of("wsd", {{"decay", "41 steps"}}),
              HasSubstr("schedule.decay: 41 steps does not end within the run"));
  EXPECT_THAT(error_of("wsd", {{"decay", "81%"}}), HasSubstr("that is 41 of the 40"));
  EXPECT_THAT(error_of("cosine_restarts", {{"first", "9 epochs"}}), HasSubstr("schedule.first: 9 epochs"));
  EXPECT_EQ(error_of("wsd", {{"decay", "80%"}}), "");
  EXPECT_EQ(error_of("step", {{"every", "50 steps"}}), "");
}

TEST(Schedule, PeriodsThatGrowPastEveryRunDoNotOverflow) {
  const Schedule schedule(
      {.name = "cosine_restarts", .warmup = {}, .args = {{"first", "1 steps"}, {"multiplier", 1000}}}, 50, 5);
  EXPECT_GT(schedule.factor(int64_t{1} << 62), 0);
  EXPECT_EQ(schedule.factor(1), 1);
  EXPECT_EQ(schedule.factor(1001), 1);
}

TEST(Schedule, OneCycleWhosePeakIsItsFirstStep) {
  const Schedule schedule({.name = "one_cycle", .warmup = {}, .args = {{"peak", 0.1}}}, 10, 5);
  EXPECT_EQ(schedule.factor(0), 1);
  EXPECT_LT(schedule.factor(1), 1);
  EXPECT_EQ(schedule.factor(9), schedule.factor(100));
}

TEST(Schedule, BindsExactlyTheCatalog) {
  EXPECT_THAT(curve_names(), UnorderedElementsAreArray(names_of(CatalogKind::kSchedule)));
}

}  // namespace
}  // namespace gputrain

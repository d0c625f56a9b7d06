#include "train/triggers.h"

#include <gtest/gtest.h>

#include "util/units.h"

namespace gputrain {
namespace {

using std::chrono::seconds;

constexpr int64_t kPerEpoch = 5;
const MonotonicTime kStart{std::chrono::hours(1)};

Every steps(int64_t count) {
  return {Length{count, Length::Unit::kSteps}, std::nullopt};
}
Every epochs(int64_t count) {
  return {Length{count, Length::Unit::kEpochs}, std::nullopt};
}
Every lasting(seconds duration) {
  return {std::nullopt, duration};
}

TEST(TotalSteps, TheFirstReachedOfEpochsAndSteps) {
  TrainPlan plan;
  plan.epochs = 3;
  EXPECT_EQ(total_steps(plan, kPerEpoch), 15);
  plan.max_steps = 7;
  EXPECT_EQ(total_steps(plan, kPerEpoch), 7);
  plan.max_steps = 100;
  EXPECT_EQ(total_steps(plan, kPerEpoch), 15);
  plan.epochs.reset();
  EXPECT_EQ(total_steps(plan, kPerEpoch), 100);
}

// Steps of 1..total at which something is due, when nothing but the step moves.
std::vector<int64_t> due_steps(const TriggerPlan& plan, bool Due::*what) {
  const Triggers triggers(plan, kStart);
  std::vector<int64_t> found;
  for (int64_t step = 0; step <= plan.total_steps; ++step) {
    if (triggers.due({step, -1, -1}, kStart).*what) found.push_back(step);
  }
  return found;
}

TEST(Triggers, LengthsCountFromTheBeginningAndTheLastStepAlwaysCounts) {
  TriggerPlan plan{.log = {}, .evaluate = epochs(1), .save = steps(7), .total_steps = 18, .steps_per_epoch = kPerEpoch};
  EXPECT_EQ(due_steps(plan, &Due::evaluate), (std::vector<int64_t>{5, 10, 15, 18}));
  EXPECT_EQ(due_steps(plan, &Due::save), (std::vector<int64_t>{7, 14, 18}));
  plan.evaluate = epochs(2);
  plan.save = {};
  EXPECT_EQ(due_steps(plan, &Due::evaluate), (std::vector<int64_t>{10, 18}));
  EXPECT_EQ(due_steps(plan, &Due::save), (std::vector<int64_t>{18}));
  plan.evaluate = {};
  EXPECT_EQ(due_steps(plan, &Due::evaluate), (std::vector<int64_t>{}));
}

TEST(Triggers, WhatWasDoneForThisStepIsNotDueAgain) {
  const Triggers triggers({.log = {}, .evaluate = steps(2), .save = steps(2), .total_steps = 4, .steps_per_epoch = 4},
                          kStart);
  for (const int64_t step : {2, 4}) {
    const Due due = triggers.due({step, step, step}, kStart);
    EXPECT_FALSE(due.evaluate || due.save) << step;
    EXPECT_TRUE(triggers.due({step, step - 2, step}, kStart).evaluate);
    EXPECT_TRUE(triggers.due({step, step, step - 2}, kStart).save);
  }
}

TEST(Triggers, DurationsCountFromTheLastTime) {
  Triggers triggers({.log = lasting(seconds(1)),
                     .evaluate = {},
                     .save = lasting(seconds(60)),
                     .total_steps = 1000,
                     .steps_per_epoch = 10},
                    kStart);
  EXPECT_FALSE(triggers.due({3, -1, -1}, kStart + seconds(59)).save);
  EXPECT_TRUE(triggers.due({3, -1, -1}, kStart + seconds(60)).save);
  EXPECT_FALSE(triggers.due({0, -1, -1}, kStart + seconds(600)).save) << "nothing is new at step 0";
  triggers.saved(kStart + seconds(61));
  EXPECT_FALSE(triggers.due({4, -1, 3}, kStart + seconds(120)).save);
  EXPECT_TRUE(triggers.due({4, -1, 3}, kStart + seconds(121)).save);

  EXPECT_FALSE(triggers.log_due(1, kStart + std::chrono::milliseconds(999)));
  EXPECT_TRUE(triggers.log_due(1, kStart + seconds(1)));
  triggers.logged(kStart + seconds(1));
  EXPECT_FALSE(triggers.log_due(2, kStart + seconds(1)));
  EXPECT_TRUE(triggers.log_due(1000, kStart + seconds(1))) << "the last step is always logged";
}

TEST(Triggers, EitherOfStepsAndDuration) {
  const Every both{Length{10, Length::Unit::kSteps}, seconds(60)};
  const Triggers triggers({.log = {}, .evaluate = {}, .save = both, .total_steps = 1000, .steps_per_epoch = 10},
                          kStart);
  EXPECT_TRUE(triggers.due({10, -1, -1}, kStart).save);
  EXPECT_FALSE(triggers.due({11, -1, -1}, kStart).save);
  EXPECT_TRUE(triggers.due({11, -1, -1}, kStart + seconds(60)).save);
}

}  // namespace
}  // namespace gputrain

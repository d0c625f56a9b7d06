#include <filesystem>
#include <future>

#include <gtest/gtest.h>

#include "support/temp_dir.h"
#include "train/phase.h"
#include "util/error.h"

namespace gputrain {
namespace {

using std::chrono::milliseconds;
using testing::TempDir;

TEST(ParseHold, PhaseAtStep) {
  const Hold hold = parse_hold("all-reduce@12");
  EXPECT_EQ(hold.phase, Phase::kAllReduce);
  EXPECT_EQ(hold.step, 12u);
  EXPECT_EQ(parse_hold("set-up@0").phase, Phase::kSetUp);
  for (const char* bad : {"", "forward", "forward@", "forward@x", "forward@-1", "sideways@3", "@3", "forward@3@4"}) {
    EXPECT_THROW(parse_hold(bad), Error) << bad;
  }
}

TEST(PhaseMarker, WritesThePage) {
  ProgressPage page;
  StopSource stop;
  PhaseMarker marker(&page, stop, std::nullopt);
  marker.enter(Phase::kBackward, 7);
  EXPECT_EQ(page.step, 7u);
  EXPECT_EQ(static_cast<Phase>(page.phase.load()), Phase::kBackward);
  marker.enter_all_reduce();
  marker.enter_all_reduce();
  EXPECT_EQ(page.collectives, 2u);
  EXPECT_EQ(page.step, 7u);
  EXPECT_EQ(static_cast<Phase>(page.phase.load()), Phase::kAllReduce);
}

// Enters phases on a thread; says whether it was still waiting after a while.
bool holds(PhaseMarker& marker, Phase phase, int64_t step, StopSource& stop) {
  auto entered = std::async(std::launch::async, [&] { marker.enter(phase, step); });
  const bool waiting = entered.wait_for(milliseconds(60)) == std::future_status::timeout;
  if (waiting) stop.raise(StopReason::kPreempted);
  EXPECT_EQ(entered.wait_for(std::chrono::seconds(5)), std::future_status::ready);
  return waiting;
}

TEST(PhaseMarker, HoldsAtItsPlaceUntilAStop) {
  StopSource stop;
  ProgressPage page;
  PhaseMarker marker(&page, stop, parse_hold("optimizer@3"));
  EXPECT_FALSE(holds(marker, Phase::kOptimizer, 2, stop));
  EXPECT_FALSE(holds(marker, Phase::kBackward, 3, stop));
  EXPECT_TRUE(holds(marker, Phase::kOptimizer, 3, stop));
  EXPECT_EQ(page.step, 3u) << "the page says where it held";
}

TEST(PhaseMarker, HoldsOnlyOnceOverAllProcesses) {
  TempDir directory;
  Hold hold = parse_hold("forward@1");
  hold.once_path = directory / "once";
  StopSource stop;
  PhaseMarker first(nullptr, stop, hold);
  EXPECT_TRUE(holds(first, Phase::kForward, 1, stop));
  EXPECT_TRUE(std::filesystem::exists(hold.once_path));
  StopSource other;
  PhaseMarker second(nullptr, other, hold);
  EXPECT_FALSE(holds(second, Phase::kForward, 1, other));
}

TEST(StopSource, KeepsTheStrongestReasonAndWakes) {
  StopSource stop;
  int wakes = 0;
  stop.set_wake([&] { ++wakes; });
  stop.raise(StopReason::kNone);
  EXPECT_FALSE(stop.raised());
  EXPECT_EQ(wakes, 0);
  stop.raise(StopReason::kInterrupted);
  stop.raise(StopReason::kPreempted);
  EXPECT_EQ(stop.reason(), StopReason::kInterrupted);
  EXPECT_EQ(wakes, 2);
  stop.set_wake([&] { wakes = 100; });
  EXPECT_EQ(wakes, 100) << "already raised: woken at once";
  stop.set_wake({});
  stop.raise(StopReason::kMaxDuration);
  EXPECT_EQ(wakes, 100);
}

}  // namespace
}  // namespace gputrain

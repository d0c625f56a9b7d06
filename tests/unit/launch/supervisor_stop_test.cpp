// The attempt state machine when it is asked to stop.
#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "supervisor_harness.h"

namespace gputrain {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::SupervisorTest;
using Kind = AttemptResult::Kind;

TEST_F(SupervisorTest, AStopSavesAndReleases) {
  run_until_going();
  stop(StopReason::kPreempted);
  EXPECT_THAT(sent(), ElementsAre("Stop>0"));
  EXPECT_EQ(std::get<Stop>(last_).grace_ms, 30000);
  EXPECT_EQ(*supervisor_->deadline() - now_, milliseconds(31000));
  done(0, stopped(17, 17));
  done(1, stopped(17, -1));
  EXPECT_THAT(sent(), ElementsAre("Release>0"));
  exited(0, 0);
  exited(1, 0);
  EXPECT_EQ(result_->kind, Kind::kStopped);
  EXPECT_EQ(result_->reason, StopReason::kPreempted);
  EXPECT_TRUE(result_->saved);
  EXPECT_EQ(result_->step, 17);
}

TEST_F(SupervisorTest, NothingNewIsSavedEnough) {
  run_until_going();  // resumed at step 10
  stop(StopReason::kPreempted);
  done(0, stopped(10, -1));
  done(1, stopped(10, -1));
  exited(0, 0);
  exited(1, 0);
  EXPECT_TRUE(result_->saved);
}

TEST_F(SupervisorTest, AStopWithoutASaveIsNotSaved) {
  run_until_going();
  stop(StopReason::kUserStop);
  done(0, stopped(17, 14));
  done(1, stopped(17, -1));
  exited(0, 0);
  exited(1, 0);
  EXPECT_FALSE(result_->saved);
  EXPECT_EQ(result_->reason, StopReason::kUserStop);
}

TEST_F(SupervisorTest, AtGraceAndOneSecondItKills) {
  run_until_going();
  stop(StopReason::kPreempted);
  sent();
  pass(milliseconds(30999));
  EXPECT_THAT(sent(), IsEmpty());
  pass(milliseconds(1));
  EXPECT_THAT(sent(), ElementsAre("Kill>0"));
  killed(0);
  killed(1);
  EXPECT_EQ(result_->kind, Kind::kStopped);
  EXPECT_FALSE(result_->saved);
  EXPECT_FALSE(result_->verdict);
}

TEST_F(SupervisorTest, TheAgentsOwnDeadlineEndsTheOtherHosts) {
  make(2, 1);
  run_until_going();
  stop(StopReason::kPreempted);
  sent();
  killed(0);
  EXPECT_THAT(sent(), ElementsAre("Kill>0", "Kill>1"));
  killed(1);
  EXPECT_EQ(result_->kind, Kind::kStopped);
  EXPECT_FALSE(result_->saved);
}

TEST_F(SupervisorTest, AStopBeforeGoHasNothingToSave) {
  run_until_ready();
  stop(StopReason::kInterrupted);
  EXPECT_THAT(sent().back(), "Kill>0");
  killed(0);
  killed(1);
  EXPECT_EQ(result_->kind, Kind::kStopped);
  EXPECT_TRUE(result_->saved);
  EXPECT_FALSE(result_->went);
}

TEST_F(SupervisorTest, AStopBeforeAnyProcessEndsAtOnce) {
  stop(StopReason::kPreempted);
  ASSERT_TRUE(result_);
  EXPECT_TRUE(result_->saved);
}

TEST_F(SupervisorTest, ARankThatWasAskedBehindOurBackStopsAll) {
  make(2, 1);
  run_until_going();
  done(1, stopped(17, -1));
  EXPECT_THAT(sent(), ElementsAre("Stop>0", "Stop>1"));
  EXPECT_EQ(std::get<Stop>(last_).reason, StopReason::kPreempted);
  done(0, stopped(17, 17));
  exited(0, 0);
  exited(1, 0);
  EXPECT_EQ(result_->reason, StopReason::kPreempted);
  EXPECT_TRUE(result_->saved);
}

TEST_F(SupervisorTest, AnAgentsNoticeStopsAll) {
  run_until_going();
  supervisor_->on_message(0, AgentNotice{StopReason::kPreempted}, now_);
  take();
  EXPECT_THAT(sent(), ElementsAre("Stop>0"));
}

TEST_F(SupervisorTest, AFailureWhileStoppingIsNotSaved) {
  run_until_going();
  stop(StopReason::kPreempted);
  exited(1, 0, SIGKILL);
  killed(0);
  EXPECT_EQ(result_->kind, Kind::kStopped);
  EXPECT_FALSE(result_->saved);
  EXPECT_EQ(result_->verdict->rank, 1);
}

TEST_F(SupervisorTest, AFailureAfterRankZeroHasSavedIsSaved) {
  run_until_going();
  stop(StopReason::kPreempted);
  done(0, stopped(17, 17));
  exited(1, 0, SIGKILL);
  killed(0);
  EXPECT_EQ(result_->kind, Kind::kStopped);
  EXPECT_TRUE(result_->saved);
}

TEST_F(SupervisorTest, AStopThatComesWithTheLastStepIsComplete) {
  run_until_going();
  stop(StopReason::kPreempted);
  done(0, complete());
  done(1, complete());
  exited(0, 0);
  exited(1, 0);
  EXPECT_EQ(result_->kind, Kind::kComplete);
}

TEST_F(SupervisorTest, AStopDuringAFailureIsNoRestart) {
  run_until_going();
  exited(1, 0, SIGKILL);
  stop(StopReason::kUserStop);
  killed(0);
  EXPECT_EQ(result_->kind, Kind::kStopped);
  EXPECT_EQ(result_->reason, StopReason::kUserStop);
  EXPECT_FALSE(result_->saved);
}

TEST_F(SupervisorTest, KillNowDoesNotSave) {
  run_until_going();
  stop(StopReason::kInterrupted);
  sent();
  supervisor_->kill_now(StopReason::kInterrupted, now_);
  take();
  EXPECT_THAT(sent(), ElementsAre("Kill>0"));
  killed(0);
  killed(1);
  EXPECT_EQ(result_->kind, Kind::kStopped);
  EXPECT_FALSE(result_->saved);
}

TEST_F(SupervisorTest, APauseMovesTheDeadline) {
  run_until_going();
  stop(StopReason::kPreempted);
  sent();
  supervisor_->shift(std::chrono::hours(1));
  pass(std::chrono::hours(1));
  EXPECT_THAT(sent(), IsEmpty());
  pass(milliseconds(31000));
  EXPECT_THAT(sent(), ElementsAre("Kill>0"));
}

}  // namespace
}  // namespace gputrain

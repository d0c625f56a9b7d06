// The attempt state machine: success and failures (supervisor_stop_test.cpp: stops).
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
using State = Supervisor::State;

TEST_F(SupervisorTest, ConductsAnAttempt) {
  make(2, 2);
  EXPECT_THAT(sent(), ElementsAre("Listen>0"));
  listening();
  EXPECT_THAT(sent(), ElementsAre("Start>0", "Start>1"));
  const auto& start = std::get<Start>(last_);
  EXPECT_EQ(start.attempt, 3);
  EXPECT_EQ(start.world_size, 4);
  EXPECT_EQ(start.store_port, 4000);
  EXPECT_EQ(start.group_rank, 1);
  ASSERT_EQ(start.slots.size(), 2u);
  EXPECT_EQ(start.slots[0].rank, 2);
  EXPECT_EQ(start.slots[0].local_rank, 0);
  for (int rank = 3; rank >= 0; --rank) {
    EXPECT_EQ(prepared_, 0);
    started(rank);
    ready(rank, {{"step", 10}});
  }
  EXPECT_EQ(prepared_, 1);
  EXPECT_EQ(supervisor_->start_step(), 10);
  EXPECT_THAT(sent(), IsEmpty());  // not before the start event is written
  supervisor_->go(now_);
  take();
  EXPECT_THAT(sent(), ElementsAre("Go>0", "Go>1"));
  for (int rank = 0; rank < 3; ++rank) done(rank, complete());
  EXPECT_THAT(sent(), IsEmpty());
  done(3, complete());
  EXPECT_THAT(sent(), ElementsAre("Release>0", "Release>1"));
  for (int rank = 0; rank < 4; ++rank) exited(rank, 0);
  ASSERT_TRUE(result_);
  EXPECT_EQ(result_->kind, Kind::kComplete);
  EXPECT_EQ(result_->step, 30);
  EXPECT_EQ(result_->final["accuracy"], 0.5);
  EXPECT_EQ(supervisor_->deadline(), std::nullopt);
}

TEST_F(SupervisorTest, TheFirstFailureKillsEveryAgentAtOnce) {
  make(3, 1);
  run_until_going();
  exited(1, 0, SIGKILL);
  EXPECT_THAT(sent(), ElementsAre("Kill>0", "Kill>1", "Kill>2"));
  killed(0);
  EXPECT_FALSE(result_);
  killed(2);
  ASSERT_TRUE(result_);
  EXPECT_EQ(result_->kind, Kind::kFailed);
  EXPECT_TRUE(result_->went);
  EXPECT_EQ(result_->verdict->rank, 1);
  EXPECT_EQ(result_->verdict->host, "host-1");
  EXPECT_EQ(result_->verdict->exit_code, 137);
  EXPECT_EQ(result_->verdict->victims, 2);
}

TEST_F(SupervisorTest, ATypedErrorWhileRunningKillsAtOnce) {
  run_until_going();
  error(0, ErrorKind::kNonFinite);
  EXPECT_THAT(sent(), ElementsAre("Kill>0"));
  exited(0, 1);
  killed(1);
  EXPECT_EQ(result_->verdict->error->kind, ErrorKind::kNonFinite);
  EXPECT_EQ(result_->verdict->progress.phase, "forward");
  EXPECT_EQ(result_->verdict->code, 1);
}

TEST_F(SupervisorTest, WhatEveryRankReportsIsTheFailureOfTheRankItNames) {
  run_until_going();
  from_rank(0, RankError{3, 0, {ErrorKind::kNonFinite, "on rank 1", "", "", 1}, {6, "optimizer", 0}});
  EXPECT_THAT(sent(), ElementsAre("Kill>0"));
  exited(0, 1);
  from_rank(1, RankError{3, 1, {ErrorKind::kNonFinite, "on rank 1", "", "", 1}, {5, "backward", 0}});
  killed(1);
  EXPECT_EQ(result_->verdict->rank, 1);
  EXPECT_EQ(result_->verdict->pid, 101);
  EXPECT_EQ(result_->verdict->exit_code, 1);
  EXPECT_FALSE(result_->verdict->retryable);
  EXPECT_EQ(result_->verdict->same_ranks, 1);
  EXPECT_EQ(result_->verdict->victims, 1);
  EXPECT_EQ(result_->verdict->progress.phase, "backward");  // its own, not the first reporter's
}

TEST_F(SupervisorTest, ACulpritThatEndsWithoutAReportIsWhereItEnded) {
  run_until_going();
  from_rank(0, RankError{3, 0, {ErrorKind::kNonFinite, "on rank 1", "", "", 1}, {6, "optimizer", 0}});
  RankExited exit;
  exit.attempt = 3;
  exit.rank = exit.code = 1;
  exit.progress = {5, "backward", 0};
  from_rank(1, exit);
  killed(0);
  EXPECT_EQ(result_->verdict->rank, 1);
  EXPECT_EQ(result_->verdict->progress.step, 5);
}

TEST_F(SupervisorTest, AVictimsReportWaitsForTheCulprit) {
  run_until_going();
  error(0, ErrorKind::kPeerLost);
  exited(0, 1);
  EXPECT_THAT(sent(), IsEmpty());
  pass(milliseconds(300));
  exited(1, 0, SIGSEGV);
  EXPECT_THAT(sent(), ElementsAre("Kill>0"));
  ASSERT_TRUE(result_);
  EXPECT_EQ(result_->verdict->rank, 1);
  EXPECT_EQ(result_->verdict->exit_code, 139);
}

TEST_F(SupervisorTest, AVictimAloneIsBlamedAfter500Milliseconds) {
  run_until_going();
  error(0, ErrorKind::kPeerLost);
  ASSERT_TRUE(supervisor_->deadline());
  EXPECT_EQ(*supervisor_->deadline() - now_, kCulpritWait);
  pass(milliseconds(499));
  EXPECT_THAT(sent(), IsEmpty());
  pass(milliseconds(1));
  EXPECT_THAT(sent(), ElementsAre("Kill>0"));
  killed(0);
  killed(1);
  EXPECT_EQ(result_->verdict->failure_class, FailureClass::kPeerLost);
  EXPECT_EQ(result_->verdict->rank, 0);
}

TEST_F(SupervisorTest, WhenAllAreVictimsNobodyIsWaitedFor) {
  run_until_going();
  error(0, ErrorKind::kPeerLost);
  error(1, ErrorKind::kPeerLost);
  EXPECT_THAT(sent(), ElementsAre("Kill>0"));
}

TEST_F(SupervisorTest, SetUpErrorsAreCollected) {
  listening();
  sent();
  error(0, ErrorKind::kData);
  exited(0, 65);
  EXPECT_THAT(sent(), IsEmpty());
  pass(milliseconds(100));
  error(1, ErrorKind::kData);
  EXPECT_THAT(sent(), ElementsAre("Kill>0"));
  exited(1, 65);
  ASSERT_TRUE(result_);
  EXPECT_FALSE(result_->went);
  EXPECT_EQ(result_->verdict->same_ranks, 2);
  EXPECT_EQ(result_->verdict->exit_code, 65);
}

TEST_F(SupervisorTest, ReadyRanksAreNotWaitedForAfterASetUpError) {
  listening();
  ready(1);
  sent();
  error(0, ErrorKind::kData);
  EXPECT_THAT(sent(), ElementsAre("Kill>0"));
}

TEST_F(SupervisorTest, ARankThatGetsReadyEndsTheWaitAfterASetUpError) {
  listening();
  sent();
  error(0, ErrorKind::kData);
  ready(1);
  EXPECT_THAT(sent(), ElementsAre("Kill>0"));
  EXPECT_EQ(prepared_, 0);
}

TEST_F(SupervisorTest, ASignalDuringSetUpKillsAtOnce) {
  listening();
  sent();
  exited(1, 0, SIGKILL);
  EXPECT_THAT(sent(), ElementsAre("Kill>0"));
}

TEST_F(SupervisorTest, ALostAgentFailsTheAttempt) {
  make(2, 1);
  run_until_going();
  supervisor_->on_agent_lost(1, "silent for 3.0s", now_);
  take();
  EXPECT_THAT(sent(), ElementsAre("Kill>0"));  // nobody listens at the other
  killed(0);
  ASSERT_TRUE(result_);
  EXPECT_EQ(result_->verdict->failure_class, FailureClass::kHostLost);
  EXPECT_EQ(result_->verdict->host, "host-1");
  EXPECT_EQ(result_->verdict->exit_code, 69);
  EXPECT_TRUE(result_->verdict->retryable);
  EXPECT_TRUE(result_->unkillable.empty());
}

TEST_F(SupervisorTest, AnAgentLostBeforeAnyProcessEndsTheAttempt) {
  supervisor_->on_agent_lost(0, "it was killed by SIGKILL", now_);
  take();
  ASSERT_TRUE(result_);
  EXPECT_EQ(result_->verdict->failure_class, FailureClass::kHostLost);
}

TEST_F(SupervisorTest, AnAgentThatCannotListenIsAnError) {
  supervisor_->on_message(0, Listening{3, "10.0.0.1", 0, "Cannot assign requested address"}, now_);
  take();
  ASSERT_TRUE(result_);
  EXPECT_EQ(result_->verdict->exit_code, 69);
  EXPECT_EQ(result_->verdict->error->message, "no port for the store on 10.0.0.1: Cannot assign requested address");
}

TEST_F(SupervisorTest, AnExitBeforeReleaseIsOurFault) {
  run_until_going();
  done(0, complete());
  exited(0, 0);
  killed(1);
  EXPECT_EQ(result_->verdict->exit_code, 70);
}

TEST_F(SupervisorTest, AfterReleaseNothingTakesTheResultAway) {
  run_until_going();
  done(0, complete());
  done(1, complete());
  exited(0, 0, SIGSEGV);
  supervisor_->on_agent_lost(0, "gone", now_);
  take();
  ASSERT_TRUE(result_);
  EXPECT_EQ(result_->kind, Kind::kComplete);
}

TEST_F(SupervisorTest, ARankThatHangsAfterReleaseIsKilled) {
  run_until_going();
  done(0, complete());
  done(1, complete());
  exited(0, 0);
  sent();
  pass(kReleaseWait);
  EXPECT_THAT(sent(), ElementsAre("Kill>0"));
  killed(1);
  EXPECT_EQ(result_->kind, Kind::kComplete);
}

TEST_F(SupervisorTest, UnkillableProcessesAreNamedAfterTenSeconds) {
  run_until_going();
  exited(1, 3);
  pass(kKillWait - milliseconds(1));
  EXPECT_FALSE(result_);
  pass(milliseconds(1));
  ASSERT_TRUE(result_);
  EXPECT_THAT(result_->unkillable, ElementsAre(100));
  EXPECT_EQ(result_->verdict->exit_code, 3);
}

TEST_F(SupervisorTest, AlreadyCompleteEndsAtTheFirstWordOfRankZero) {
  listening();
  sent();
  ready(0, {{"complete", true}, {"step", 30}});
  EXPECT_THAT(sent(), ElementsAre("Kill>0"));
  killed(0);
  killed(1);
  EXPECT_EQ(result_->kind, Kind::kAlreadyComplete);
  EXPECT_EQ(result_->step, 30);
  EXPECT_EQ(prepared_, 0);
}

TEST_F(SupervisorTest, AlreadyCompleteSaysWhyItEndedEarly) {
  listening();
  ready(0, {{"complete", true}, {"step", 30}, {"stopped_early", "stopped early: loss"}});
  killed(0);
  killed(1);
  EXPECT_EQ(result_->stopped_early, "stopped early: loss");
}

TEST_F(SupervisorTest, TheControllersOwnFailureEndsTheAttempt) {
  run_until_ready();
  supervisor_->fail(Error(ErrorKind::kOutput, "cannot write events.jsonl: No space left on device"), now_);
  supervisor_->go(now_);
  take();
  killed(0);
  killed(1);
  EXPECT_EQ(result_->kind, Kind::kFailed);
  EXPECT_FALSE(result_->went);
  EXPECT_EQ(result_->verdict->exit_code, 73);
  EXPECT_EQ(describe(*result_->verdict), "gputrain failed");
}

TEST_F(SupervisorTest, AnAgentThatEndedItsRanksByItselfIsTheCulprit) {
  run_until_going();
  killed(0);
  killed(1);
  ASSERT_TRUE(result_);
  EXPECT_EQ(result_->verdict->failure_class, FailureClass::kHostLost);
}

TEST_F(SupervisorTest, ForeignMessagesAreIgnored) {
  run_until_going();
  RankExited old;
  old.attempt = 2;
  old.signal = SIGKILL;
  supervisor_->on_message(0, old, now_);
  RankExited nobody;
  nobody.attempt = 3;
  nobody.rank = 9;
  nobody.signal = SIGKILL;
  supervisor_->on_message(0, nobody, now_);
  nobody.rank = -1;
  supervisor_->on_message(0, nobody, now_);
  RankExited not_its_rank;
  not_its_rank.attempt = 3;
  not_its_rank.signal = SIGKILL;
  make(2, 1);
  run_until_going();
  supervisor_->on_message(1, not_its_rank, now_);  // rank 0 lives at agent 0
  supervisor_->on_message(0, Listening{3, "127.0.0.1", 1, ""}, now_);
  supervisor_->on_message(0, Heartbeat{1}, now_);
  take();
  EXPECT_THAT(sent(), IsEmpty());
  EXPECT_EQ(supervisor_->state(), State::kRunning);
}

TEST(AttemptPlanTest, NumbersRanksHostByHost) {
  LaunchPlan launch;
  launch.hosts = {{"a", 2, {3, 5}, 8}, {"b", 1, {}, 4}};
  launch.omp_threads = 4;
  const AttemptPlan plan = plan_attempt(launch, 7);
  EXPECT_EQ(plan.attempt, 7);
  EXPECT_EQ(plan.world_size(), 3);
  ASSERT_EQ(plan.agents.size(), 2u);
  EXPECT_EQ(plan.agents[0].slots[1].rank, 1);
  EXPECT_EQ(plan.agents[0].slots[1].local_rank, 1);
  EXPECT_EQ(plan.agents[0].slots[1].device, 5);
  EXPECT_EQ(plan.agents[0].slots[1].threads, 4);
  EXPECT_EQ(plan.agents[1].slots[0].rank, 2);
  EXPECT_EQ(plan.agents[1].slots[0].local_rank, 0);
  EXPECT_EQ(plan.agents[1].slots[0].device, -1);
  EXPECT_EQ(plan.agent_of(2), 1);
  EXPECT_EQ(plan.agent_of(3), -1);
  EXPECT_EQ(plan.agent_of(-1), -1);
}

}  // namespace
}  // namespace gputrain

#include "launch/outcome.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gputrain {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Kind = AttemptResult::Kind;

OutcomeContext context(int64_t saved_step = 14) {
  OutcomeContext context;
  context.run_id = "abc";
  context.output = "/runs/a";
  context.resume_command = "gputrain launch a.yaml";
  context.attempt = 3;
  context.restarts = 2;
  context.max_restarts = 2;
  context.last_step = 17;
  context.saved_step = saved_step;
  return context;
}

AttemptResult stopped(StopReason reason, bool saved) {
  AttemptResult result;
  result.kind = Kind::kStopped;
  result.reason = reason;
  result.went = true;
  result.saved = saved;
  result.step = saved ? 17 : 0;
  return result;
}

Verdict killed() {
  Verdict verdict;
  verdict.failure_class = FailureClass::kSignal;
  verdict.host = "local";
  verdict.rank = 1;
  verdict.pid = 4321;
  verdict.signal = 9;
  verdict.progress = {17, "backward", 0};
  verdict.exit_code = 137;
  verdict.retryable = true;
  verdict.victims = 1;
  verdict.log_path = "/runs/a/logs/attempt-0003/rank-00001.log";
  verdict.log_tail = "line one\nline \x1b two\n";
  return verdict;
}

AttemptResult failed(const Verdict& verdict) {
  AttemptResult result;
  result.kind = Kind::kFailed;
  result.went = true;
  result.verdict = verdict;
  return result;
}

TEST(OutcomeOf, StopsByReasonAndSave) {
  const struct {
    StopReason reason;
    bool saved;
    int code;
    const char* word;
    const char* text;
  } cases[] = {
      {StopReason::kPreempted, true, 75, "preempted", "preempted: saved at step 17\n"},
      {StopReason::kPreempted, false, 76, "preempted-unsaved", "preempted: not saved, last checkpoint at step 14\n"},
      {StopReason::kUserStop, true, 77, "stopped", "stopped: saved at step 17\n"},
      {StopReason::kUserStop, false, 77, "stopped", "stopped: not saved, last checkpoint at step 14\n"},
      {StopReason::kInterrupted, true, 130, "interrupted", "interrupted: saved at step 17\n"},
      {StopReason::kMaxDuration, true, 124, "hang", "stopped at launch.max_duration: saved at step 17\n"},
  };
  for (const auto& item : cases) {
    const Outcome outcome = outcome_of(stopped(item.reason, item.saved), std::nullopt, context());
    EXPECT_EQ(outcome.exit_code, item.code);
    EXPECT_EQ(outcome.result["outcome"], item.word);
    EXPECT_EQ(outcome.result["reason"], to_string(item.reason));
    EXPECT_EQ(outcome.result["saved"], item.saved);
    EXPECT_EQ(outcome.result["resumable"], true);
    EXPECT_EQ(outcome.summary, std::string(item.text) + "continue with: gputrain launch a.yaml\n");
  }
}

TEST(OutcomeOf, ARunThatEndedBeforeItsPlanSaysWhy) {
  AttemptResult result;
  result.step = 17;
  EXPECT_FALSE(outcome_of(result, std::nullopt, context()).result.contains("stopped_early"));
  result.stopped_early = "stopped early: loss has not improved for 5 evaluations";
  const Outcome done = outcome_of(result, std::nullopt, context());
  EXPECT_EQ(done.exit_code, 0);
  EXPECT_EQ(done.result["stopped_early"], result.stopped_early);
  EXPECT_EQ(done.summary, "done: 17 steps; stopped early: loss has not improved for 5 evaluations; output /runs/a\n");
  result.kind = Kind::kAlreadyComplete;
  EXPECT_EQ(outcome_of(result, std::nullopt, context()).summary,
            "already complete at step 17; stopped early: loss has not improved for 5 evaluations\n");
}

TEST(OutcomeOf, AFailureThatSpoiledTheSaveIsToldWhenItIsNoProcessDeath) {
  AttemptResult result = stopped(StopReason::kPreempted, false);
  result.verdict = killed();
  EXPECT_EQ(outcome_of(result, std::nullopt, context()).exit_code, 76);
  EXPECT_EQ(outcome_of(result, std::nullopt, context()).result["culprit"]["rank"], 1);
  result.verdict->failure_class = FailureClass::kError;
  result.verdict->error = WireError{ErrorKind::kCheckpoint, "disk full", "", "free some"};
  result.verdict->retryable = false;
  result.verdict->exit_code = 74;
  const Outcome outcome = outcome_of(result, std::nullopt, context());
  EXPECT_EQ(outcome.exit_code, 74);
  EXPECT_THAT(outcome.summary, HasSubstr("gputrain: error: disk full\nhint: free some\n"));
  result.saved = true;  // rank 0 had saved before
  EXPECT_EQ(outcome_of(result, std::nullopt, context()).exit_code, 75);
}

TEST(OutcomeOf, AFailureNamesCulpritLogAndWayOn) {
  RestartDecision decision;
  decision.exit_code = 137;
  decision.spent = true;
  const Outcome outcome = outcome_of(failed(killed()), decision, context());
  EXPECT_EQ(outcome.exit_code, 137);
  EXPECT_EQ(outcome.summary,
            "gputrain: error: rank 1 (pid 4321) on local was killed by SIGKILL at step 17 (backward)\n"
            "last lines of /runs/a/logs/attempt-0003/rank-00001.log:\n"
            "  | line one\n"
            "  | line \\x1b two\n"
            "failed with exit code 137: 2 restarts used since the last new checkpoint; 1 other rank ended with it; "
            "last checkpoint at step 14\n"
            "continue with: gputrain launch a.yaml\n");
  EXPECT_EQ(
      dump_line(outcome.result),
      R"({"outcome":"signal","exit_code":137,"resumable":false,"run_id":"abc","output":"/runs/a","attempt":3,"restarts":2,)"
      R"("max_restarts":2,"step":17,"saved_step":14,"culprit":{"host":"local","rank":1,"pid":4321,"signal":"SIGKILL",)"
      R"("code":0,"oom_killed":false},"error":null,"class":"signal","phase":"backward","victims":1})");
}

TEST(OutcomeOf, DifferentCausesAre93) {
  RestartDecision decision;
  decision.exit_code = 93;
  decision.spent = true;
  const Outcome outcome = outcome_of(failed(killed()), decision, context());
  EXPECT_EQ(outcome.result["outcome"], "no-progress");
  EXPECT_THAT(outcome.summary, HasSubstr("2 restarts used since the last new checkpoint, for different causes"));
}

TEST(OutcomeOf, UnkillableProcessesAreNamed) {
  AttemptResult result = failed(killed());
  result.unkillable = {7, 9};
  RestartDecision decision;
  decision.exit_code = 137;
  EXPECT_THAT(outcome_of(result, decision, context()).summary, HasSubstr("still there after SIGKILL"));
  EXPECT_THAT(outcome_of(result, decision, context()).summary, HasSubstr("pid 7 and 9\n"));
}

TEST(OutcomeOf, ASetUpErrorDoesNotTalkOfCheckpoints) {
  Verdict verdict;
  verdict.failure_class = FailureClass::kError;
  verdict.error = WireError{ErrorKind::kData, "is missing", "/data/x", "get it"};
  verdict.exit_code = 65;
  AttemptResult result = failed(verdict);
  result.went = false;
  RestartDecision decision;
  decision.exit_code = 65;
  OutcomeContext fresh = context(-1);
  fresh.last_step = 0;
  EXPECT_EQ(outcome_of(result, decision, fresh).summary,
            "gputrain: error: /data/x: is missing\nhint: get it\nfailed with exit code 65\n");
}

TEST(OutcomeOf, DoneTellsTheMetrics) {
  AttemptResult result;
  result.step = 1175;
  result.final = {{"accuracy", 0.9125}, {"epoch", 5}};
  const Outcome outcome = outcome_of(result, std::nullopt, context());
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.result["step"], 1175);
  EXPECT_EQ(outcome.summary, "done: 1175 steps, accuracy 0.9125, epoch 5; output /runs/a\n");
}

TEST(OutcomeOf, ASmokeTestHasNothingToContinue) {
  OutcomeContext smoke = context();
  smoke.smoke = true;
  EXPECT_EQ(outcome_of(stopped(StopReason::kInterrupted, true), std::nullopt, smoke).summary, "interrupted\n");
}

TEST(OutcomeOf, TheControllersOwnError) {
  const Outcome outcome = outcome_of(Error(ErrorKind::kEnvironment, "no agent", "gpu-1", "look"), context());
  EXPECT_EQ(outcome.exit_code, 69);
  EXPECT_EQ(outcome.result["error"]["where"], "gpu-1");
  EXPECT_EQ(outcome.summary, "gputrain: error: gpu-1: no agent\nhint: look\n");
}

}  // namespace
}  // namespace gputrain

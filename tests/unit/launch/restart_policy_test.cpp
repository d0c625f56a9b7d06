#include "launch/restart_policy.h"

#include <gtest/gtest.h>

namespace gputrain {
namespace {

Verdict verdict(const std::string& cause, int exit_code, bool retryable = true) {
  Verdict verdict;
  verdict.cause = cause;
  verdict.exit_code = exit_code;
  verdict.retryable = retryable;
  return verdict;
}
const Verdict kKilled = verdict("signal/SIGKILL", 137);
const Verdict kExit3 = verdict("exit/3", 3);

TEST(RestartPolicyTest, SpentOnOneCauseIsTheCulpritsCode) {
  RestartPolicy policy(2, {});
  for (int number = 1; number <= 2; ++number) {
    const RestartDecision decision = policy.failure(kKilled);
    EXPECT_TRUE(decision.restart);
    EXPECT_EQ(decision.restart_number, number);
  }
  const RestartDecision last = policy.failure(kKilled);
  EXPECT_FALSE(last.restart);
  EXPECT_TRUE(last.spent);
  EXPECT_EQ(last.exit_code, 137);
}

TEST(RestartPolicyTest, SpentOnDifferentCausesIs93) {
  RestartPolicy policy(2, {});
  policy.failure(kKilled);
  policy.failure(kExit3);
  EXPECT_EQ(policy.failure(kKilled).exit_code, 93);
}

TEST(RestartPolicyTest, WhatCannotGetBetterIsNotRetried) {
  RestartPolicy policy(2, {});
  policy.failure(kKilled);
  const RestartDecision decision = policy.failure(verdict("error/data", 65, false));
  EXPECT_FALSE(decision.restart);
  EXPECT_FALSE(decision.spent);
  EXPECT_EQ(decision.exit_code, 65);
}

TEST(RestartPolicyTest, OnlyANewCheckpointStepStartsTheCountAgain) {
  RestartPolicy policy(1, {});
  policy.checkpoint(14);
  EXPECT_TRUE(policy.failure(kKilled).restart);
  policy.checkpoint(14);  // saved again
  policy.checkpoint(7);
  EXPECT_FALSE(policy.failure(kKilled).restart);
  policy.checkpoint(21);
  EXPECT_EQ(policy.failures(), 0);
  EXPECT_TRUE(policy.failure(kExit3).restart);
  EXPECT_EQ(policy.failure(kExit3).exit_code, 3);  // SIGKILL was before the checkpoint: the row has one cause
}

TEST(RestartPolicyTest, ZeroRestarts) {
  RestartPolicy policy(0, {});
  const RestartDecision decision = policy.failure(kKilled);
  EXPECT_FALSE(decision.restart);
  EXPECT_EQ(decision.exit_code, 137);
}

TEST(RestartPolicyTest, TheRowOfThePreviousLaunchCounts) {
  RestartPolicy policy(2, {14, {"exit/3", "exit/3"}});
  EXPECT_EQ(policy.failures(), 2);
  EXPECT_EQ(policy.failure(kKilled).exit_code, 93);
  RestartPolicy progressed(2, {14, {"exit/3", "exit/3"}});
  progressed.checkpoint(14);  // where it resumes: not new
  EXPECT_EQ(progressed.failures(), 2);
  progressed.checkpoint(21);
  EXPECT_TRUE(progressed.failure(kKilled).restart);
}

}  // namespace
}  // namespace gputrain

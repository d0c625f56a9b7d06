#include "launch/history.h"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/temp_dir.h"

namespace gputrain {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class HistoryTest : public ::testing::Test {
 protected:
  RunHistory read(const std::string& text) {
    std::ofstream(directory_ / "events.jsonl") << text;
    return read_history(directory_.path());
  }
  testing::TempDir directory_;
};

constexpr char kStart[] = R"({"ts":"x","attempt":1,"kind":"start","run_id":"abc","plan_hash":"h1"})"
                          "\n";

std::string failure(int attempt, const std::string& cause, bool counts = true) {
  return R"({"attempt":)" + std::to_string(attempt) + R"(,"kind":"failure","cause":")" + cause + R"(","counts":)" +
         (counts ? "true" : "false") + "}\n";
}
std::string checkpoint(int attempt, int step) {
  return R"({"attempt":)" + std::to_string(attempt) + R"(,"kind":"checkpoint","step":)" + std::to_string(step) + "}\n";
}

TEST_F(HistoryTest, ANewDirectoryHasNone) {
  const RunHistory history = read_history(directory_.path());
  EXPECT_EQ(history.run_id, "");
  EXPECT_EQ(history.last_attempt, 0);
  EXPECT_EQ(history.row.newest_checkpoint, -1);
}

TEST_F(HistoryTest, FindsRunAttemptAndPlan) {
  const RunHistory history =
      read(std::string(kStart) + R"({"attempt":4,"kind":"start","run_id":"abc","plan_hash":"h2"})"
                                 "\n");
  EXPECT_EQ(history.run_id, "abc");
  EXPECT_EQ(history.last_attempt, 4);
  EXPECT_EQ(history.plan_hash, "h2");
}

TEST_F(HistoryTest, TheRowBeginsAtTheNewestCheckpoint) {
  const RunHistory history = read(kStart + failure(1, "exit/3") + checkpoint(2, 14) + failure(2, "signal/SIGKILL") +
                                  checkpoint(3, 14) + failure(3, "exit/4"));
  EXPECT_EQ(history.row.newest_checkpoint, 14);
  EXPECT_THAT(history.row.causes, ElementsAre("signal/SIGKILL", "exit/4"));  // 14 again is not progress
}

std::string start(int attempt, const std::string& hash, const std::string& resume, int resumed_step) {
  return R"({"attempt":)" + std::to_string(attempt) + R"(,"kind":"start","run_id":"abc","plan_hash":")" + hash +
         R"(","resume":")" + resume + R"(","resumed_step":)" + std::to_string(resumed_step) + "}\n";
}

TEST_F(HistoryTest, AnotherPlanBeginsANewRow) {
  const RunHistory history =
      read(kStart + checkpoint(1, 14) + failure(1, "exit/3") + start(2, "h2", "auto", 0) + failure(2, "exit/4") +
           start(3, "h2", "auto", 0) + checkpoint(3, 7) + failure(3, "exit/5"));
  EXPECT_EQ(history.row.newest_checkpoint, 7);  // 14 was the other plan's
  EXPECT_THAT(history.row.causes, ElementsAre("exit/5"));
}

TEST_F(HistoryTest, StartingAnewBeginsANewRow) {
  const RunHistory history =
      read(kStart + checkpoint(1, 14) + failure(1, "exit/3") + start(2, "h1", "never", 0) + failure(2, "exit/4"));
  EXPECT_EQ(history.row.newest_checkpoint, -1);
  EXPECT_THAT(history.row.causes, ElementsAre("exit/4"));
}

TEST_F(HistoryTest, ANewBeginningThatFailedInSetUpIsNone) {
  const std::string failed = R"({"attempt":2,"kind":"start","plan_hash":"h1","resume":"never","set_up_failed":true})"
                             "\n";
  const RunHistory history = read(kStart + failure(1, "exit/3") + failed + failure(2, "exit/4"));
  EXPECT_THAT(history.row.causes, ElementsAre("exit/3", "exit/4"));
}

TEST_F(HistoryTest, WhatAnAttemptResumedFromIsACheckpoint) {
  const std::string text = kStart + failure(1, "exit/3") + start(2, "h1", "auto", 10) + failure(2, "exit/4");
  EXPECT_EQ(read(text).row.newest_checkpoint, 10);
  EXPECT_THAT(read(text).row.causes, ElementsAre("exit/4"));
  EXPECT_THAT(read(text + start(3, "h1", "auto", 10) + checkpoint(3, 10) + failure(3, "exit/5")).row.causes,
              ElementsAre("exit/4", "exit/5"));  // 10 again is not progress
}

TEST_F(HistoryTest, FailuresThatAreNeverRetriedDoNotCount) {
  EXPECT_THAT(read(kStart + failure(1, "error/data", false)).row.causes, IsEmpty());
}

TEST_F(HistoryTest, SkipsTornAndForeignLines) {
  const RunHistory history =
      read(std::string(kStart) + "garbage\n[1]\n{\"kind\":7}\n{\"kind\":\"failure\",\"cause\":7,\"counts\":true}\n\n" +
           checkpoint(2, 7) + R"({"attempt":9,"kind":"fail)");
  EXPECT_EQ(history.run_id, "abc");
  EXPECT_EQ(history.last_attempt, 2);
  EXPECT_EQ(history.row.newest_checkpoint, 7);
}

TEST(StepLine, IsToldWithoutParsing) {
  EXPECT_TRUE(is_step_line(R"({"ts":"x","mono_s":1.0,"attempt":1,"kind":"step","step":7)"));
  EXPECT_FALSE(is_step_line(R"({"ts":"x","attempt":1,"kind":"notice","text":"a \"kind\":\"step\" in a text"})"));
  EXPECT_FALSE(is_step_line(""));
}

TEST_F(HistoryTest, ALongRunIsReadFromItsEnd) {
  const std::string step = R"({"ts":"2026-11-30T04:05:06.000000Z","attempt":1,"kind":"step","step":1,"pad":")" +
                           std::string(4000, 'x') + "\"}\n";
  std::ofstream out(directory_ / "events.jsonl");
  out << kStart << failure(1, "old");
  for (int i = 0; i < 17000; ++i) out << step;  // 68 MB
  out << failure(2, "new");
  out.close();
  const RunHistory history = read_history(directory_.path());
  EXPECT_EQ(history.run_id, "abc");
  EXPECT_EQ(history.last_attempt, 2);
  EXPECT_THAT(history.row.causes, ElementsAre("new"));
}

}  // namespace
}  // namespace gputrain

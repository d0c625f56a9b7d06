#include "launch/agent_output.h"

#include <algorithm>
#include <fstream>
#include <iterator>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "support/temp_dir.h"

namespace gputrain {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using testing::TempDir;

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(AgentOutputTest, TailIsTheLastFortyLines) {
  RankOutput output;
  for (int i = 0; i < 100; ++i) output.append("line " + std::to_string(i) + "\n");
  std::string expected;
  for (int i = 60; i < 100; ++i) expected += "line " + std::to_string(i) + "\n";
  EXPECT_EQ(output.tail(), expected);
  output.append("unfinished");
  const std::string tail = output.tail();
  EXPECT_THAT(tail, EndsWith("line 99\nunfinished\n"));
  EXPECT_EQ(std::count(tail.begin(), tail.end(), '\n'), 40);
}

TEST(AgentOutputTest, LinesMayComeInPieces) {
  RankOutput output;
  for (const char c : std::string("one\ntwo\r\n\nfour")) output.append(std::string_view(&c, 1));
  EXPECT_EQ(output.tail(), "one\ntwo\n\nfour\n");
}

TEST(AgentOutputTest, ProgressBarLeavesItsLastState) {
  RankOutput output;
  output.append("10%\r20%\r30%");
  EXPECT_EQ(output.tail(), "30%\n");
  output.append("\r40%\ndone\n");
  EXPECT_EQ(output.tail(), "40%\ndone\n");
}

TEST(AgentOutputTest, LongLinesAreCut) {
  RankOutput output;
  output.append(std::string(5000, 'a') + "\nb\n");
  EXPECT_EQ(output.tail(), std::string(400, 'a') + "\nb\n");
}

TEST(AgentOutputTest, WhatWasHeldGoesFirst) {
  TempDir directory;
  RankOutput output;
  output.append("held\n");
  const std::string path = directory / "a/b/rank.log";
  output.open(path);
  output.append("live\n");
  output.open(directory / "other");  // once only
  output.append("more\n");
  EXPECT_EQ(output.path(), path);
  EXPECT_EQ(read_text(path), "held\nlive\nmore\n");
}

TEST(AgentOutputTest, HoldsTheFirstAndTheLastOfMuch) {
  TempDir directory;
  RankOutput output;
  constexpr int kLines = 1'000'000;  // 10 bytes each
  char line[16];
  for (int i = 0; i < kLines; ++i) {
    std::snprintf(line, sizeof line, "%09d\n", i);
    output.append(line);
  }
  output.open(directory / "log");
  const std::string text = read_text(directory / "log");
  EXPECT_LT(text.size(), 1'700'000u);
  EXPECT_THAT(text.substr(0, 20), "000000000\n000000001\n");
  EXPECT_THAT(text, EndsWith("000999998\n000999999\n"));
  const auto notice = text.find("\n[gputrain: ");
  ASSERT_NE(notice, std::string::npos);
  const int64_t dropped = std::atoll(text.c_str() + notice + 12);
  const auto notice_end = text.find("]\n", notice) + 2;
  EXPECT_EQ(static_cast<int64_t>(text.size() - (notice_end - notice)) + dropped, 10LL * kLines)
      << "every byte is accounted for";
}

TEST(AgentOutputTest, FailsQuietlyWhereNoFileCanBe) {
  TempDir directory;
  std::ofstream(directory / "file") << "x";
  RankOutput output;
  output.append("12345\n");
  output.open(directory / "file/logs/rank.log");
  output.append("67890\n");
  EXPECT_EQ(read_text(directory / "file"), "x");
  EXPECT_THAT(output.tail(), HasSubstr("12345\n67890\n[gputrain: 12 bytes of output dropped: "));
}

TEST(AgentOutputTest, AppendsToAnExistingFile) {
  TempDir directory;
  std::ofstream(directory / "log") << "earlier\n";
  RankOutput output;
  output.open(directory / "log");
  output.append("later\n");
  EXPECT_EQ(read_text(directory / "log"), "earlier\nlater\n");
}

TEST(AgentOutputTest, APipeInThePlaceOfTheLogStopsNobody) {
  TempDir directory;
  const std::string path = directory / "rank.log";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  RankOutput output;
  output.open(path);
  output.append("hello\n");
  EXPECT_THAT(output.tail(), HasSubstr("6 bytes of output dropped: cannot open " + path + ": it is a pipe"));
}

}  // namespace
}  // namespace gputrain

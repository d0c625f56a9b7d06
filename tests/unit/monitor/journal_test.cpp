#include "monitor/journal.h"

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "monitor/record.h"
#include "util/error.h"

namespace gputrain {
namespace {

class FixedClock : public Clock {
 public:
  MonotonicTime now() override { return MonotonicTime(std::chrono::milliseconds(12'500)); }
  int64_t unix_micros() override { return 1'000'000; }
};

class JournalTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "journal-XXXXXX";
    directory_ = mkdtemp(pattern.data());
    path_ = directory_ + "/events.jsonl";
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  Journal open() { return Journal(path_, clock_, MonotonicTime(std::chrono::seconds(10))); }
  std::string content() {
    std::ifstream in(path_);
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
  }
  void write(const std::string& text) { std::ofstream(path_) << text; }

  FixedClock clock_;
  std::string directory_, path_;
};

TEST_F(JournalTest, StampsEachRecordAndKeepsItsMembers) {
  Journal journal = open();
  const std::string line = journal.append_text(R"({"kind":"step","loss":0.1000000000000000055})", 3);
  EXPECT_EQ(
      line,
      R"({"ts":"1970-01-01T00:00:01.000000Z","mono_s":2.500000,"attempt":3,"kind":"step","loss":0.1000000000000000055})");
  journal.append(Json{{"kind", "end"}}, 4);
  journal.sync();
  EXPECT_EQ(content(),
            line + "\n" + R"({"ts":"1970-01-01T00:00:01.000000Z","mono_s":2.500000,"attempt":4,"kind":"end"})" + "\n");
}

TEST_F(JournalTest, NanIsTheStringNan) {
  StepRecord record;
  record.loss = NAN;
  const std::string line = open().append(to_json(record), 1);
  EXPECT_EQ(parse_json(line, "line")["loss"], "nan");
}

TEST_F(JournalTest, ContinuesAnExistingFile) {
  write("{\"kind\":\"old\"}\n");
  const std::string line = open().append(Json{{"kind", "new"}}, 1);
  EXPECT_EQ(content(), "{\"kind\":\"old\"}\n" + line + "\n");
}

TEST_F(JournalTest, ClosesTheTornLastLineOfAKilledRun) {
  write("{\"kind\":\"old\"}\n{\"kind\":\"st");
  const std::string line = open().append(Json{{"kind", "new"}}, 1);
  EXPECT_EQ(content(), "{\"kind\":\"old\"}\n{\"kind\":\"st\n" + line + "\n");
}

TEST_F(JournalTest, ARecordAfterOneThatWasWrittenInPartBeginsALine) {
  Journal journal = open();
  const std::string first = journal.append(Json{{"kind", "first"}}, 1);
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit full{first.size() + 1 + 7, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &full), 0);
  EXPECT_THROW(journal.append(Json{{"kind", "lost"}}, 1), Error);
  EXPECT_THROW(journal.append(Json{{"kind", "lost"}}, 1), Error);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  const std::string third = journal.append(Json{{"kind", "third"}}, 1);
  const std::string fourth = journal.append(Json{{"kind", "fourth"}}, 1);
  EXPECT_EQ(content(), first + "\n{\"ts\":\"\n" + third + "\n" + fourth + "\n");
}

TEST_F(JournalTest, WhatCannotBeOneLineOfJsonBecomesAWarning) {
  Journal journal = open();
  for (const std::string bad :
       {"", "{}", "[1]", "{\"kind\":\"a\"", "{\"kind\":\n\"a\"}", "{\"kind\":\"\x01\"}", "garbage"}) {
    const Json json = parse_json(journal.append_text(bad, 2), bad);
    EXPECT_EQ(json["kind"], "warning") << bad;
    EXPECT_EQ(json["attempt"], 2) << bad;
  }
  std::istringstream lines(content());
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) parse_json(line, "events.jsonl");
  EXPECT_EQ(count, 7);
}

TEST_F(JournalTest, AMissingDirectoryIsAnOutputError) {
  try {
    Journal(directory_ + "/no/events.jsonl", clock_, {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind, ErrorKind::kOutput);
    EXPECT_EQ(error.message, "cannot open " + directory_ + "/no/events.jsonl: No such file or directory");
  }
}

TEST_F(JournalTest, AFullDiskIsAnOutputErrorWithARemedy) {
  // Some containers make only a few devices; a full disk cannot be had otherwise without root.
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full here";
  std::filesystem::create_symlink("/dev/full", path_);
  Journal journal = open();
  try {
    journal.append(Json{{"kind", "step"}}, 1);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind, ErrorKind::kOutput);
    EXPECT_NE(error.message.find("No space left on device"), std::string::npos) << error.message;
    EXPECT_NE(error.hint.find("free some space"), std::string::npos);
  }
}

TEST(RecordKind, IsFoundWhereverItStands) {
  EXPECT_EQ(record_kind(R"({"kind":"step","step":1})"), "step");
  EXPECT_EQ(record_kind(R"({"step":1,"kind":"eval"})"), "eval");
  EXPECT_EQ(record_kind(R"({ "kind" : "step"})"), "step");
  EXPECT_EQ(record_kind(R"({"step":1})"), "");
  EXPECT_EQ(record_kind(R"({"kind":7})"), "");
  EXPECT_EQ(record_kind("not json"), "");
  EXPECT_EQ(record_kind(R"([{"kind":"step"}])"), "");
}

TEST_F(JournalTest, APipeIsNoJournal) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_THROW(open(), Error);
}

}  // namespace
}  // namespace gputrain

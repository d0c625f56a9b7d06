#include "monitor/journal_reader.h"

#include <fstream>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "support/temp_dir.h"
#include "util/error.h"

namespace gputrain {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class JournalReaderTest : public ::testing::Test {
 protected:
  void write(const std::string& text) { std::ofstream(path_, std::ios::trunc) << text; }
  std::vector<std::string> tail(int64_t bytes = kJournalTail) {
    std::vector<std::string> lines;
    read_tail(
        real_file_system(), path_, [&](std::string_view line) { lines.emplace_back(line); }, bytes);
    return lines;
  }
  std::string first() { return first_line(real_file_system(), path_); }

  testing::TempDir directory_;
  std::string path_ = directory_ / "events.jsonl";
};

TEST_F(JournalReaderTest, ReadsEveryLineOfAShortFile) {
  EXPECT_THAT(tail(), IsEmpty());
  EXPECT_EQ(first(), "");
  write("");
  EXPECT_THAT(tail(), IsEmpty());
  write("one\n\nthree\ntorn");
  EXPECT_THAT(tail(), ElementsAre("one", "", "three", "torn"));
  EXPECT_EQ(first(), "one");
  write("torn");
  EXPECT_EQ(first(), "torn");
  EXPECT_THAT(tail(), ElementsAre("torn"));
}

TEST_F(JournalReaderTest, ALineThatTheTailCutsIsLeftOut) {
  write("first\nsecond\nthird\n");
  EXPECT_THAT(tail(7), ElementsAre("third"));
  EXPECT_THAT(tail(6), IsEmpty());
  EXPECT_THAT(tail(13), ElementsAre("third"));
  EXPECT_THAT(tail(14), ElementsAre("second", "third"));
  EXPECT_EQ(first(), "first");
}

TEST_F(JournalReaderTest, LinesCrossThePieces) {
  std::string text;
  size_t lines = 0;
  for (; text.size() < (size_t{3} << 20); ++lines) text += std::string(1 + lines * 7919 % 40000, 'x') + "\n";
  write(text);
  const auto read = tail();
  ASSERT_EQ(read.size(), lines);
  for (size_t i = 0; i < lines; ++i) ASSERT_EQ(read[i].size(), 1 + i * 7919 % 40000) << i;
}

TEST_F(JournalReaderTest, APipeIsAnErrorNotAWait) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_THROW(tail(), Error);
  EXPECT_THROW(first(), Error);
}

}  // namespace
}  // namespace gputrain

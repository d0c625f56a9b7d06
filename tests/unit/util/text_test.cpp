#include "util/text.h"

#include <gtest/gtest.h>

namespace gputrain {
namespace {

TEST(Nearest, SlipsAreFoundAndStrangersAreNot) {
  const std::vector<std::string> keys = {"global_batch", "micro_batch", "epochs", "max_steps", "lr"};
  EXPECT_EQ(nearest("golbal_batch", keys), "global_batch");
  EXPECT_EQ(nearest("global-batch", keys), "global_batch");
  EXPECT_EQ(nearest("Epochs", keys), "epochs");
  EXPECT_EQ(nearest("epoch", keys), "epochs");
  EXPECT_EQ(nearest("lt", keys), "lr");
  EXPECT_EQ(nearest("output_directory", keys), "");
}

TEST(EditDistance, TranspositionIsOneEdit) {
  EXPECT_EQ(edit_distance("abcd", "abdc"), 1);
  EXPECT_EQ(edit_distance("", "abc"), 3);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
}

TEST(SourceExcerpt, CaretUnderTheColumn) {
  EXPECT_EQ(source_excerpt("  lr: -0.1", 14, 7), "   14 |   lr: -0.1\n      |       ^");
}

TEST(SourceExcerpt, AVeryLongLineIsCutAroundTheCaret) {
  const std::string excerpt = source_excerpt(std::string(1 << 20, 'x'), 3, 500000);
  EXPECT_LT(excerpt.size(), 600u);
  EXPECT_NE(excerpt.find('^'), std::string::npos);
}

TEST(Printable, ForeignBytesNeverReachTheTerminal) {
  EXPECT_EQ(printable("a\x1b[31mb\r\n"), "a\\x1b[31mb\\x0d\\x0a");
  EXPECT_EQ(printable("caf\xc3\xa9 \xff\xc3"), "caf\xc3\xa9 \\xff\\xc3");
}

TEST(ShellQuoted, OnlyWhereNeeded) {
  EXPECT_EQ(shell_quoted("train.lr=1e-3"), "train.lr=1e-3");
  EXPECT_EQ(shell_quoted("a b"), "'a b'");
  EXPECT_EQ(shell_quoted("it's $HOME"), "'it'\\''s $HOME'");
  EXPECT_EQ(shell_quoted(""), "''");
}

TEST(MatchesPattern, StarsAndQuestionMarksOverTheWholeName) {
  EXPECT_TRUE(matches_pattern("layer1.0.conv1.weight", "layer1.*"));
  EXPECT_TRUE(matches_pattern("layer1.0.conv1.weight", "*.weight"));
  EXPECT_TRUE(matches_pattern("layer1.0.conv1.weight", "layer?.?.conv?.weight"));
  EXPECT_TRUE(matches_pattern("layer1.0.conv1.weight", "*conv*w*t"));
  EXPECT_TRUE(matches_pattern("fc", "fc*"));
  EXPECT_TRUE(matches_pattern("abab", "*ab"));
  EXPECT_TRUE(matches_pattern("", "**"));
  EXPECT_TRUE(matches_pattern("fc.weight", "fc.weight"));
  EXPECT_FALSE(matches_pattern("fc.weight", "fc"));
  EXPECT_FALSE(matches_pattern("layer10.weight", "layer?.weight"));
  EXPECT_FALSE(matches_pattern("fc.weight", "FC.weight"));
  EXPECT_FALSE(matches_pattern("fcxweight", "fc?"));
  EXPECT_FALSE(matches_pattern("", "?"));
  EXPECT_FALSE(matches_pattern("h.0.attn.c_attn.bias", "*.attn.bias"));
}

TEST(MatchesPattern, ManyStarsCostNoBacktracking) {
  const std::string text(5000, 'a');
  std::string pattern;
  for (int i = 0; i < 500; ++i) pattern += "*a";
  EXPECT_FALSE(matches_pattern(text, pattern + "b"));
}

TEST(Table, ColumnsAreAligned) {
  EXPECT_EQ(render_table({{"a", "bbb", "c"}, {"aaaa", "b", "c"}}), "a     bbb  c\naaaa  b    c\n");
}

TEST(Words, Joined) {
  EXPECT_EQ(join_words(std::vector<std::string>{"a", "b", "c"}), "a, b and c");
  EXPECT_EQ(join_words(std::vector<std::string>{"a"}), "a");
  EXPECT_EQ(plural(1, "rank") + ", " + plural(2, "rank"), "1 rank, 2 ranks");
}

}  // namespace
}  // namespace gputrain

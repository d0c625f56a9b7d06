#include "util/error.h"

#include <csignal>
#include <set>

#include <gtest/gtest.h>

#include "util/json.h"

namespace gputrain {
namespace {

TEST(ExitCodes, AscendingUniqueAndFoundAgain) {
  int previous = -1;
  std::set<std::string_view> words;
  for (const auto& row : exit_code_table()) {
    EXPECT_GT(row.code, previous);
    previous = row.code;
    EXPECT_TRUE(words.insert(row.word).second) << row.word;
    EXPECT_EQ(find_exit_code(row.code)->word, row.word);
  }
  EXPECT_FALSE(find_exit_code(3));
  EXPECT_EQ(signal_exit_code(SIGKILL), 137);
  EXPECT_EQ(signal_name(SIGSEGV), "SIGSEGV");
}

TEST(ExitCodes, OnlyResumableRowsSaySo) {
  for (int code : {75, 76, 77, 130}) EXPECT_TRUE(find_exit_code(code)->resumable) << code;
  for (int code : {0, 2, 64, 65, 70, 74, 93}) EXPECT_FALSE(find_exit_code(code)->resumable) << code;
}

TEST(ErrorKinds, WordsRoundTripAndCodesAreTheDesigns) {
  const std::pair<ErrorKind, int> expected[] = {
      {ErrorKind::kUsage, 2},        {ErrorKind::kSpec, 64},           {ErrorKind::kData, 65},
      {ErrorKind::kEnvironment, 69}, {ErrorKind::kInternal, 70},       {ErrorKind::kOutput, 73},
      {ErrorKind::kCheckpoint, 74},  {ErrorKind::kNonFinite, 1},       {ErrorKind::kOutOfMemory, 1},
      {ErrorKind::kPeerLost, 1},     {ErrorKind::kCannotExecute, 126}, {ErrorKind::kNotFound, 127}};
  for (auto [kind, code] : expected) {
    EXPECT_EQ(error_kind(error_word(kind)), kind);
    EXPECT_EQ(static_cast<int>(exit_code(kind)), code);
  }
  EXPECT_EQ(error_kind("a word of a later version"), ErrorKind::kInternal);
}

TEST(ErrorKinds, BadInputIsNeverRetried) {
  for (auto kind : {ErrorKind::kSpec, ErrorKind::kData, ErrorKind::kCheckpoint, ErrorKind::kNonFinite,
                    ErrorKind::kInternal, ErrorKind::kOutput, ErrorKind::kCannotExecute, ErrorKind::kNotFound}) {
    EXPECT_FALSE(is_retryable(kind)) << error_word(kind);
  }
  EXPECT_TRUE(is_retryable(ErrorKind::kPeerLost));
}

TEST(ErrorText, SaysWhatWhereAndWhatToDo) {
  const Error error(ErrorKind::kSpec, "unknown key \"lrr\"", "run.yaml:3:5", "did you mean lr?");
  EXPECT_EQ(error.render(), "run.yaml:3:5: unknown key \"lrr\"\nhint: did you mean lr?");
  EXPECT_STREQ(ErrorList({error, error}).what(), (error.render() + "\n" + error.render()).c_str());
}

TEST(JsonNumbers, NonFiniteBecomesAString) {
  EXPECT_EQ(dump_line(Json{{"loss", json_number(0.0 / 0.0)}, {"x", json_number(-1.0 / 0.0)}}),
            R"({"loss":"nan","x":"-inf"})");
  EXPECT_TRUE(std::isnan(number_from_json("nan")));
  EXPECT_EQ(number_from_json(json_number(1e-320)), 1e-320);
}

TEST(JsonParse, DuplicateKeysAndGarbageAreErrors) {
  EXPECT_THROW(parse_json(R"({"a":1,"b":{"a":2,"a":3}})", "here"), Error);
  EXPECT_NO_THROW(parse_json(R"({"a":1,"b":{"a":2},"c":{"a":3}})", "here"));
  EXPECT_THROW(parse_json("{", "here"), Error);
  EXPECT_EQ(dump_line(Json("\xff")), "\"\xEF\xBF\xBD\"");
}

}  // namespace
}  // namespace gputrain

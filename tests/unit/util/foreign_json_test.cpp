#include "util/foreign_json.h"

#include <gtest/gtest.h>

#include "util/error.h"

namespace gputrain {
namespace {

std::string nested(int depth) {
  return std::string(static_cast<size_t>(depth), '[') + std::string(static_cast<size_t>(depth), ']');
}

TEST(ForeignJson, DepthIsLimited) {
  EXPECT_EQ(parse_foreign_json(nested(kMaxJsonNesting)).size(), 1u);
  EXPECT_TRUE(parse_foreign_json(nested(kMaxJsonNesting + 1)).is_discarded());
  EXPECT_TRUE(parse_foreign_json(nested(1000000)).is_discarded());
  EXPECT_THROW(parse_json(nested(1000000), "somewhere"), Error);
  EXPECT_NO_THROW(parse_json(nested(kMaxJsonNesting), "somewhere"));
}

TEST(ForeignJson, BracketsInTextsAreNoDepth) {
  const std::string text = R"({"a\\": "\"[[[{{{", "b": [1], "c": {}})";
  EXPECT_FALSE(nested_deeper_than(2, text));
  EXPECT_TRUE(nested_deeper_than(1, text));
  EXPECT_EQ(parse_foreign_json(text)["b"][0], 1);
}

TEST(ForeignJson, WhatIsNoJsonIsNoObject) {
  for (const char* text : {"", "hello", "{\"a\":", "\xff", "]]]]"}) EXPECT_FALSE(parse_foreign_json(text).is_object());
}

}  // namespace
}  // namespace gputrain

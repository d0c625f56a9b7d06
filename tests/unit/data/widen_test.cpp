#include "data/widen.h"

#include <cstring>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

namespace gputrain {
namespace {

// Three values of each type, its extremes among them, apart and in place.
template <typename From, typename To>
void expect_widened(at::ScalarType type) {
  const std::vector<From> stored{std::numeric_limits<From>::min(), From{7}, std::numeric_limits<From>::max()};
  const std::vector<To> expected{static_cast<To>(stored[0]), To{7}, static_cast<To>(stored[2])};
  std::vector<To> values(3);
  widen(type, stored.data(), std::span<To>(values));
  EXPECT_EQ(values, expected) << type;
  values.assign(3, To{-1});
  const std::span<char> tail = tail_for(type, std::span<To>(values));
  ASSERT_EQ(tail.size(), stored.size() * sizeof(From));
  std::memcpy(tail.data(), stored.data(), tail.size());
  widen(type, tail.data(), std::span<To>(values));
  EXPECT_EQ(values, expected) << type << " in place";
}

template <typename To>
void expect_all_widened() {
  expect_widened<uint8_t, To>(at::kByte);
  expect_widened<int8_t, To>(at::kChar);
  expect_widened<int16_t, To>(at::kShort);
  expect_widened<uint16_t, To>(at::kUInt16);
  expect_widened<int32_t, To>(at::kInt);
  expect_widened<uint32_t, To>(at::kUInt32);
  expect_widened<int64_t, To>(at::kLong);
}

TEST(Widen, EveryIntegerTypeToInt64) {
  expect_all_widened<int64_t>();
}

TEST(Widen, EveryIntegerTypeToDouble) {
  expect_all_widened<double>();
}

// Long enough for vector code.
TEST(Widen, LongRowsInPlace) {
  std::vector<int64_t> values(10007), expected(10007);
  std::vector<uint16_t> stored(10007);
  for (size_t i = 0; i < stored.size(); ++i) stored[i] = static_cast<uint16_t>(i * 40503), expected[i] = stored[i];
  const std::span<char> tail = tail_for(at::kUInt16, std::span(values));
  std::memcpy(tail.data(), stored.data(), tail.size());
  widen(at::kUInt16, tail.data(), std::span(values));
  EXPECT_EQ(values, expected);
}

}  // namespace
}  // namespace gputrain

#include "sys/clock.h"

#include <chrono>
#include <ctime>

#include <gtest/gtest.h>

#include "support/fake_clock.h"

namespace gputrain {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

TEST(UtcTimestamp, IsIso8601WithMicroseconds) {
  EXPECT_EQ(utc_timestamp(1'796'011'506'123'456), "2026-11-30T04:05:06.123456Z");
  EXPECT_EQ(utc_timestamp(0), "1970-01-01T00:00:00.000000Z");
  EXPECT_EQ(utc_timestamp(7), "1970-01-01T00:00:00.000007Z");
  EXPECT_EQ(utc_timestamp(951'782'400'000'000), "2000-02-29T00:00:00.000000Z");
}

TEST(UtcTimestamp, RoundsInstantsBefore1970TowardsThePast) {
  EXPECT_EQ(utc_timestamp(-1), "1969-12-31T23:59:59.999999Z");
  EXPECT_EQ(utc_timestamp(-1'000'000), "1969-12-31T23:59:59.000000Z");
}

TEST(UtcTimestamp, DoesNotDependOnTheTimeZone) {
  ASSERT_EQ(::setenv("TZ", "Asia/Tokyo", 1), 0);
  ::tzset();
  EXPECT_EQ(utc_timestamp(1'796'011'506'000'000), "2026-11-30T04:05:06.000000Z");
  ::unsetenv("TZ");
  ::tzset();
}

TEST(RealClock, MonotonicTimeNeverGoesBack) {
  MonotonicTime last = real_clock().now();
  for (int i = 0; i < 1000; ++i) {
    const MonotonicTime now = real_clock().now();
    ASSERT_LE(last, now);
    last = now;
  }
}

TEST(RealClock, WallClockIsTheSystemsInMicroseconds) {
  const int64_t before = std::time(nullptr);
  const int64_t seconds = real_clock().unix_micros() / 1'000'000;
  EXPECT_GE(seconds, before - 1);  // time(2) may lag behind the fine clock by a tick, not by more
  EXPECT_LE(seconds, std::time(nullptr) + 1);
}

TEST(SecondsBetween, IsSigned) {
  const MonotonicTime start;
  EXPECT_DOUBLE_EQ(seconds_between(start, start + milliseconds(1500)), 1.5);
  EXPECT_DOUBLE_EQ(seconds_between(start + milliseconds(250), start), -0.25);
}

TEST(FakeClock, MovesOnlyWhenTold) {
  testing::FakeClock clock;
  const MonotonicTime start = clock.now();
  EXPECT_EQ(clock.now(), start);
  EXPECT_EQ(utc_timestamp(clock.unix_micros()), "2026-11-30T04:05:06.000000Z");
  clock.advance(milliseconds(1500));
  EXPECT_EQ(seconds_between(start, clock.now()), 1.5);
  EXPECT_EQ(utc_timestamp(clock.unix_micros()), "2026-11-30T04:05:07.500000Z");
}

TEST(FakeClock, WallClockJumpsLeaveMonotonicTimeAlone) {
  testing::FakeClock clock;
  const MonotonicTime start = clock.now();
  clock.jump_wall_clock(hours(-2));
  EXPECT_EQ(clock.now(), start);
  EXPECT_EQ(utc_timestamp(clock.unix_micros()), "2026-11-30T02:05:06.000000Z");
}

}  // namespace
}  // namespace gputrain

#pragma once
#include <chrono>
#include <cstdint>
#include <string>

namespace gputrain {

using MonotonicTime = std::chrono::steady_clock::time_point;

// Time behind an interface, so that state machines can be tested with invented time (tests/support/fake_clock.h).
class Clock {
 public:
  virtual ~Clock() = default;
  virtual MonotonicTime now() = 0;    // for durations and deadlines
  virtual int64_t unix_micros() = 0;  // wall clock, only for people and event time stamps
};

Clock& real_clock();

// Seconds between two monotonic instants.
inline double seconds_between(MonotonicTime from, MonotonicTime to) {
  return std::chrono::duration<double>(to - from).count();
}

// "2026-11-30T04:05:06.123456Z"
std::string utc_timestamp(int64_t unix_micros);

}  // namespace gputrain

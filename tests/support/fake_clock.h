#pragma once
// Invented time: stands still until a test moves it. Thread-safe.
#include <atomic>
#include <chrono>
#include <cstdint>

#include "sys/clock.h"

namespace gputrain::testing {

class FakeClock : public Clock {
 public:
  // Starts at 2026-11-30T04:05:06Z, an hour after the invented boot.
  MonotonicTime now() override { return MonotonicTime(std::chrono::microseconds(kBootMicros + elapsed_micros_)); }
  int64_t unix_micros() override { return kStartUnixMicros + elapsed_micros_ + wall_jump_micros_; }

  // Time passes on both clocks.
  template <typename Rep, typename Period>
  void advance(std::chrono::duration<Rep, Period> by) {
    elapsed_micros_ += std::chrono::duration_cast<std::chrono::microseconds>(by).count();
  }
  // Somebody (NTP, an administrator) sets the wall clock; the monotonic one does not notice.
  template <typename Rep, typename Period>
  void jump_wall_clock(std::chrono::duration<Rep, Period> by) {
    wall_jump_micros_ += std::chrono::duration_cast<std::chrono::microseconds>(by).count();
  }

 private:
  static constexpr int64_t kBootMicros = 3'600'000'000;
  static constexpr int64_t kStartUnixMicros = 1'796'011'506'000'000;
  std::atomic<int64_t> elapsed_micros_{0};
  std::atomic<int64_t> wall_jump_micros_{0};
};

}  // namespace gputrain::testing

#include "sys/clock.h"

#include <cstdio>
#include <ctime>

namespace gputrain {
namespace {

class RealClock : public Clock {
 public:
  MonotonicTime now() override { return std::chrono::steady_clock::now(); }
  int64_t unix_micros() override {
    return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::system_clock::now().time_since_epoch())
        .count();
  }
};

}  // namespace

Clock& real_clock() {
  static RealClock clock;
  return clock;
}

std::string utc_timestamp(int64_t unix_micros) {
  constexpr int64_t kMicrosPerSecond = 1'000'000;
  int64_t micros = unix_micros % kMicrosPerSecond;
  if (micros < 0) micros += kMicrosPerSecond;  // before 1970: round towards the past, not towards zero
  const std::time_t seconds = (unix_micros - micros) / kMicrosPerSecond;
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char date[40];
  const size_t length = std::strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &parts);
  char fraction[16];
  std::snprintf(fraction, sizeof fraction, ".%06dZ", static_cast<int>(micros));
  return std::string(date, length) + fraction;
}

}  // namespace gputrain

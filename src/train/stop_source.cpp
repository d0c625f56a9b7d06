#include "train/stop_source.h"

#include <utility>

namespace gputrain {

void StopSource::raise(StopReason reason) {
  if (reason == StopReason::kNone) return;
  const int wanted = static_cast<int>(reason);
  int current = reason_.load();
  while (current < wanted && !reason_.compare_exchange_weak(current, wanted)) {
  }
  std::lock_guard<std::mutex> lock(mutex_);
  if (wake_) wake_();
}

void StopSource::set_wake(std::function<void()> wake) {
  std::lock_guard<std::mutex> lock(mutex_);
  wake_ = std::move(wake);
  if (wake_ && raised()) wake_();
}

}  // namespace gputrain

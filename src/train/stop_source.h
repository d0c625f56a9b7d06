#pragma once
#include <atomic>
#include <functional>
#include <mutex>

#include "wire/messages.h"

namespace gputrain {

// This rank's wish to stop, raised by the channel's reader thread (a Stop message, SIGTERM) and read by the training
// thread, which carries it into the next vote. Thread-safe.
class StopSource {
 public:
  // Keeps the strongest reason (largest value) and wakes whoever is waiting. Raising kNone does nothing.
  void raise(StopReason reason);
  StopReason reason() const { return static_cast<StopReason>(reason_.load(std::memory_order_relaxed)); }
  bool raised() const { return reason() != StopReason::kNone; }

  // Called (on the raising thread) at each raise, and at once when already raised: interrupts a data wait. An empty
  // function removes it; after that returns, the old one is not running.
  void set_wake(std::function<void()> wake);

 private:
  std::atomic<int> reason_{0};
  std::mutex mutex_;
  std::function<void()> wake_;
};

}  // namespace gputrain

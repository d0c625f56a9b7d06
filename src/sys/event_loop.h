#pragma once
// One thread's reactor over epoll: file descriptors, timers, signals (signalfd), child exits (pidfd). The controller
// and the agents are each one loop; callbacks run one at a time on the thread in run(), and may add or remove anything,
// themselves included.
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "sys/clock.h"

namespace gputrain {

class EventLoop {
 public:
  using Callback = std::function<void()>;
  using TimerId = uint64_t;

  EventLoop();
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;

  void watch_readable(int fd, Callback callback);  // also called at end of file and on errors
  void watch_writable(int fd, Callback callback);  // independent of the reader of the same fd
  void unwatch_readable(int fd);
  void unwatch_writable(int fd);

  TimerId after(std::chrono::milliseconds delay, Callback callback);  // one shot, monotonic clock
  void cancel(TimerId id);                                            // unknown or fired ids are ignored

  // Blocks these signals for the process and delivers them here. Call once, before any other thread exists. Children
  // must get their mask back (sys/process.h does).
  void watch_signals(const std::vector<int>& signals, std::function<void(int)> callback);

  void run();   // until stop()
  void stop();  // from a callback

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gputrain

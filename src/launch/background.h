#pragma once
// Slow file operations beside the event loop: on a disk busy with a checkpoint an fsync takes seconds, and agents that
// hear no heartbeat for two end their ranks.
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "sys/event_loop.h"
#include "sys/fd.h"
#include "util/error.h"

namespace gputrain {

// One thread, jobs in order. All methods are for the loop's thread.
class Background {
 public:
  using Problem = std::optional<Error>;

  // The loop must watch its signals already: the thread inherits their being blocked.
  explicit Background(EventLoop& loop);
  ~Background();  // after the job that runs; neither later jobs nor callbacks follow
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  // Runs `work` there, then `done` here, with the Error that work threw.
  void post(std::function<void()> work, std::function<void(const Problem&)> done);
  // Waits until all jobs have run and calls what is left of their `done`.
  void drain();

 private:
  struct Job {
    std::function<void()> work;
    std::function<void(const Problem&)> done;
    Problem problem;
  };
  void run();
  void deliver();

  EventLoop& loop_;
  UniqueFd wake_;  // eventfd: jobs have finished
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> waiting_, finished_;
  bool busy_ = false, stop_ = false;
  std::thread thread_;
};

}  // namespace gputrain

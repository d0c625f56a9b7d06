#pragma once
// Journal::sync() beside the event loop: on a disk busy with a checkpoint it takes seconds, and agents that hear no
// heartbeat for two end their ranks.
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "monitor/journal.h"
#include "sys/event_loop.h"
#include "sys/fd.h"

namespace gputrain {

class JournalSync {
 public:
  // Starts a thread: the loop must watch its signals already.
  JournalSync(EventLoop& loop, Journal& journal);
  ~JournalSync();
  JournalSync(const JournalSync&) = delete;
  JournalSync& operator=(const JournalSync&) = delete;

  // Everything appended before this call is synced, then `done` runs on the loop's thread; `problem` is the Error's
  // text or "".
  void request(std::function<void(const std::string& problem)> done);

 private:
  using Done = std::function<void(const std::string&)>;
  void work();
  void deliver();

  EventLoop& loop_;
  Journal& journal_;
  UniqueFd wake_;  // eventfd: syncs have finished
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Done> waiting_;
  std::deque<std::pair<Done, std::string>> finished_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace gputrain

#pragma once
// A rank's end of the socket to its agent: a reader thread that turns messages and signals into wake-ups, and blocking
// writes.
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "sys/fd.h"
#include "train/record_channel.h"
#include "train/stop_source.h"
#include "wire/codec.h"

namespace gputrain {

// The signals that ask a rank to stop are blocked (in this and every later thread) and arrive on the returned
// descriptor; those of the terminal and SIGUSR2 are ignored: the agent decides. Call before any other thread exists. A
// signal that came while SIGTERM was blocked by the agent is delivered.
UniqueFd take_signals();

// Thread-safe.
class Channel : public RecordChannel {
 public:
  struct Parts {
    int socket_fd = -1;
    UniqueFd signals;               // from take_signals()
    StopSource& stop;               // raised by Stop, SIGTERM and SIGUSR1
    std::function<void()> on_lost;  // the agent is gone: called once, on whichever thread sees it; must not return
  };
  explicit Channel(Parts parts);
  ~Channel() override;

  // Throws nothing: a broken socket ends in on_lost.
  void write(const Message& message);
  Assign wait_assign();
  // Go, or a Stop before it: then the first vote ends the run with nothing started.
  void wait_go();
  void wait_release();

  void send(const Json& record) override { write(Record{dump_line(record)}); }
  void sync() override;

 private:
  void read_loop();
  bool read_socket(Decoder& decoder);
  void read_signals();
  void handle(const Message& message);
  template <typename Condition>
  void wait(Condition condition);

  Parts parts_;
  UniqueFd wake_;  // eventfd that ends the reader thread
  std::mutex write_mutex_, mutex_;
  std::condition_variable changed_;
  std::optional<Assign> assign_;
  bool go_ = false, release_ = false;
  int64_t sync_sent_ = 0, synced_ = 0;
  std::thread reader_;
};

}  // namespace gputrain

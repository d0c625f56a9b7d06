#pragma once
// Messages over a pair of file descriptors on an EventLoop: reads whole frames, queues writes, never blocks.
#include <functional>
#include <memory>
#include <string>

#include "sys/event_loop.h"
#include "wire/codec.h"

namespace gputrain {

class Connection {
 public:
  struct Handlers {
    std::function<void(Message)> on_message;
    // Once: end of file (empty text), a broken frame or an I/O error (text says which). No callback follows; the fds are closed.
    std::function<void(const std::string& problem)> on_close;
  };

  // Owns both fds (which may be the same one) and makes them non-blocking.
  Connection(EventLoop& loop, int read_fd, int write_fd, Handlers handlers);
  ~Connection();

  // Control messages go out before queued bulk (RankRecord, Record) and are never held back. Bulk waits for credit when limited.
  // Dropped silently once closed.
  void send(const Message& message);
  // From now on at most the granted bytes of bulk are sent (an agent's side of the flow control); add_credit raises the limit.
  void limit_bulk(int64_t bytes);
  void add_credit(int64_t bytes);
  // Size of the last bulk message's frame given to on_message, for granting credit.
  size_t queued_bytes() const;
  bool closed() const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace gputrain

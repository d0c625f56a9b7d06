#pragma once
// Messages over a pair of file descriptors on an EventLoop: reads whole frames, queues writes, never blocks.
#include <functional>
#include <memory>
#include <string>

#include "sys/event_loop.h"
#include "wire/codec.h"

namespace gputrain {

// What an agent may send of RankRecord before the first Credit.
inline constexpr int64_t kInitialCredit = 4 << 20;

// The handlers may destroy the Connection they are called by.
class Connection {
 public:
  struct Handlers {
    std::function<void(Message)> on_message;
    // Once: the peer has gone (empty text; also in the middle of a frame, and when a write finds nobody), a broken
    // frame or an I/O error (text says which). What the peer had sent before is delivered first. No callback follows;
    // the fds are closed.
    std::function<void(const std::string& problem)> on_close;
  };

  // Owns both fds (which may be the same one) and makes them non-blocking.
  Connection(EventLoop& loop, int read_fd, int write_fd, Handlers handlers);
  ~Connection();

  // Control messages go out before queued bulk (RankRecord, Record) and are never held back; RankExited lets out first
  // what credit allows. Bulk waits for credit when limited. RankSync, RankDone, Sync and Done speak about the records
  // before them: they cost no credit but keep their place among bulk. Dropped silently once closed. Never calls a
  // handler from within.
  void send(const Message& message);
  // From now on a bulk frame is sent only while granted bytes are left, so at most one frame more than was granted (a
  // frame larger than any grant must pass too). An agent's side of the flow control; add_credit raises the limit.
  void limit_bulk(int64_t bytes);
  void add_credit(int64_t bytes);
  // Frame size of the message being given to on_message: what its receiver gives back as Credit when it was a
  // RankRecord.
  size_t last_frame_bytes() const;
  size_t queued_bytes() const;  // not yet handed to the kernel
  // Delivers what has arrived, without waiting: the last words of a process that has died, before its death is told.
  void drain();
  bool closed() const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace gputrain

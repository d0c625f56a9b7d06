#include "wire/connection.h"

#include <cerrno>
#include <deque>
#include <limits>
#include <variant>

#include <fcntl.h>
#include <unistd.h>

#include "sys/fd.h"
#include "util/error.h"

namespace gputrain {
namespace {

constexpr size_t kReadSize = 64 << 10;

bool is_bulk(const Message& message) {
  return std::holds_alternative<RankRecord>(message) || std::holds_alternative<Record>(message);
}

// Messages about the records before them: they must not overtake those.
bool follows_bulk(const Message& message) {
  return std::holds_alternative<RankSync>(message) || std::holds_alternative<RankDone>(message) ||
         std::holds_alternative<Sync>(message) || std::holds_alternative<Done>(message);
}

// The end of a rank waits for nobody's credit; what the rank said before goes out first as far as credit reaches.
bool is_last_word(const Message& message) {
  return std::holds_alternative<RankExited>(message);
}

bool would_block(int error) {
  return error == EAGAIN || error == EWOULDBLOCK;
}
bool peer_gone(int error) {
  return error == EPIPE || error == ECONNRESET;
}

}  // namespace

struct Connection::Impl : std::enable_shared_from_this<Connection::Impl> {
  struct Frame {
    std::string bytes;
    bool costs_credit = false;
  };
  enum class Read { kMore, kEmpty, kClosed };

  Impl(EventLoop& loop, int read_fd, int write_fd, Handlers handlers);
  void start();
  void send(const Message& message);
  void flush();
  bool take_next_frame();
  void promote_bulk();
  bool write_current();
  void write_failed(int error);
  Read read_once();
  bool deliver();
  void drain();
  void close(const std::string& problem);
  void release();
  void want_writable(bool wanted);
  int write_fd() const { return writer ? writer.get() : reader.get(); }

  EventLoop& loop;
  UniqueFd reader, writer;  // writer is empty when one descriptor does both
  Handlers handlers;
  Decoder decoder;
  std::deque<Frame> control, bulk;
  std::string current;  // frame being written, from `offset` on
  size_t offset = 0;
  size_t queued = 0;
  int64_t credit = std::numeric_limits<int64_t>::max();
  bool watching_writable = false;
  bool write_broken = false;
  bool closed = false;
};

Connection::Impl::Impl(EventLoop& loop, int read_fd, int write_fd, Handlers handlers)
    : loop(loop), reader(read_fd), writer(write_fd == read_fd ? -1 : write_fd), handlers(std::move(handlers)) {
  for (int fd : {read_fd, write_fd}) fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

// The loop holds weak references only: a callback of a destroyed connection does nothing.
void Connection::Impl::start() {
  loop.watch_readable(reader.get(), [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->read_once();
  });
}

void Connection::Impl::release() {
  if (closed) return;
  closed = true;
  want_writable(false);
  loop.unwatch_readable(reader.get());
  reader.reset();
  writer.reset();
  control.clear();
  bulk.clear();
  queued = 0;
}

void Connection::Impl::close(const std::string& problem) {
  if (closed) return;
  release();
  if (const auto on_close = std::move(handlers.on_close)) on_close(problem);
}

Connection::Impl::Read Connection::Impl::read_once() {
  if (closed) return Read::kClosed;
  char chunk[kReadSize];
  const ssize_t length = read(reader.get(), chunk, sizeof chunk);
  if (length < 0 && errno == EINTR) return Read::kMore;
  if (length < 0 && would_block(errno)) return Read::kEmpty;
  if (length <= 0) {
    close(length == 0 || peer_gone(errno) ? "" : "cannot read: " + errno_text(errno));
    return Read::kClosed;
  }
  decoder.feed({chunk, static_cast<size_t>(length)});
  return deliver() ? Read::kMore : Read::kClosed;
}

// False when the connection is closed now, by a handler or because of a broken frame.
bool Connection::Impl::deliver() {
  while (!closed) {
    std::optional<Message> message;
    try {
      message = decoder.next();
    } catch (const Error& error) {
      close(error.render());
      return false;
    }
    if (!message) return true;
    handlers.on_message(std::move(*message));
  }
  return false;
}

void Connection::Impl::drain() {
  while (read_once() == Read::kMore) {
  }
}

void Connection::Impl::send(const Message& message) {
  if (closed || write_broken) return;
  Frame frame{encode(message), is_bulk(message)};
  queued += frame.bytes.size();
  if (is_last_word(message)) promote_bulk();
  (frame.costs_credit || follows_bulk(message) ? bulk : control).push_back(std::move(frame));
  flush();
}

void Connection::Impl::promote_bulk() {
  while (!bulk.empty() && (!bulk.front().costs_credit || credit > 0)) {
    Frame& frame = bulk.front();
    if (frame.costs_credit) credit -= static_cast<int64_t>(frame.bytes.size());
    frame.costs_credit = false;
    control.push_back(std::move(frame));
    bulk.pop_front();
  }
}

bool Connection::Impl::take_next_frame() {
  auto& queue = control.empty() ? bulk : control;
  if (queue.empty()) return false;
  if (queue.front().costs_credit) {
    if (credit <= 0) return false;
    credit -= static_cast<int64_t>(queue.front().bytes.size());
  }
  current = std::move(queue.front().bytes);
  offset = 0;
  queue.pop_front();
  return true;
}

// False when the kernel takes no more now.
bool Connection::Impl::write_current() {
  while (offset < current.size()) {
    const ssize_t length = write(write_fd(), current.data() + offset, current.size() - offset);
    if (length < 0 && errno == EINTR) continue;
    if (length < 0) {
      if (!would_block(errno)) write_failed(errno);
      return false;
    }
    offset += static_cast<size_t>(length);
    queued -= static_cast<size_t>(length);
  }
  current.clear();
  offset = 0;
  return true;
}

void Connection::Impl::flush() {
  if (closed || write_broken) return;
  bool blocked = false;
  while (!blocked && (!current.empty() || take_next_frame())) blocked = !write_current();
  if (!closed && !write_broken) want_writable(blocked);
}

// The peer's last words may still be on their way in: they are read before on_close, which send() must not call itself.
void Connection::Impl::write_failed(int error) {
  write_broken = true;
  want_writable(false);
  control.clear();
  bulk.clear();
  queued = 0;
  const std::string problem = peer_gone(error) ? "" : "cannot write: " + errno_text(error);
  loop.after(std::chrono::milliseconds(0), [weak = weak_from_this(), problem] {
    const auto self = weak.lock();
    if (!self) return;
    self->drain();
    self->close(problem);
  });
}

void Connection::Impl::want_writable(bool wanted) {
  if (wanted == watching_writable) return;
  watching_writable = wanted;
  if (!wanted) return loop.unwatch_writable(write_fd());
  loop.watch_writable(write_fd(), [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->flush();
  });
}

Connection::Connection(EventLoop& loop, int read_fd, int write_fd, Handlers handlers)
    : impl_(std::make_shared<Impl>(loop, read_fd, write_fd, std::move(handlers))) {
  impl_->start();
}

Connection::~Connection() {
  impl_->release();
}

void Connection::send(const Message& message) {
  impl_->send(message);
}

void Connection::limit_bulk(int64_t bytes) {
  impl_->credit = bytes;
}

void Connection::add_credit(int64_t bytes) {
  // Saturating: a peer that grants absurd amounts has lifted the limit.
  impl_->credit = impl_->credit > std::numeric_limits<int64_t>::max() - bytes ? std::numeric_limits<int64_t>::max()
                                                                              : impl_->credit + bytes;
  impl_->flush();
}

size_t Connection::last_frame_bytes() const {
  return impl_->decoder.last_frame_bytes();
}
size_t Connection::queued_bytes() const {
  return impl_->queued;
}
bool Connection::closed() const {
  return impl_->closed;
}

void Connection::drain() {
  const auto self = impl_;  // a handler may destroy this object
  self->drain();
}

}  // namespace gputrain

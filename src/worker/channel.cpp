#include "worker/channel.h"

#include <cerrno>
#include <utility>

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "util/error.h"

namespace gputrain {

UniqueFd take_signals() {
  for (const int ignored : {SIGINT, SIGHUP, SIGUSR2}) ::signal(ignored, SIG_IGN);
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGTERM);
  ::sigaddset(&set, SIGUSR1);
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  UniqueFd fd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd) throw Error(ErrorKind::kInternal, "cannot watch signals: " + errno_text(errno));
  return fd;
}

Channel::Channel(Parts parts) : parts_(std::move(parts)), wake_(::eventfd(0, EFD_CLOEXEC)) {
  if (!wake_) throw Error(ErrorKind::kInternal, "cannot make an eventfd: " + errno_text(errno));
  reader_ = std::thread([this] { read_loop(); });
}

Channel::~Channel() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake_.get(), &one, sizeof one);
  reader_.join();
}

void Channel::write(const Message& message) {
  const std::string frame = encode(message);
  std::lock_guard<std::mutex> lock(write_mutex_);
  size_t sent = 0;
  while (sent < frame.size()) {
    const ssize_t count = ::send(parts_.socket_fd, frame.data() + sent, frame.size() - sent, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return parts_.on_lost();
    sent += static_cast<size_t>(count);
  }
}

template <typename Condition>
void Channel::wait(Condition condition) {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, condition);
}

Assign Channel::wait_assign() {
  wait([this] { return assign_.has_value(); });
  return *assign_;
}

void Channel::wait_go() {
  wait([this] { return go_; });
}

void Channel::wait_release() {
  wait([this] { return release_; });
}

void Channel::sync() {
  const int64_t id = ++sync_sent_;
  write(Sync{id});
  wait([this, id] { return synced_ >= id; });
}

void Channel::read_loop() {
  Decoder decoder;
  while (true) {
    pollfd fds[] = {{parts_.socket_fd, POLLIN, 0}, {parts_.signals.get(), POLLIN, 0}, {wake_.get(), POLLIN, 0}};
    if (::poll(fds, 3, -1) < 0) continue;
    if (fds[1].revents != 0) read_signals();
    if (fds[0].revents != 0 && !read_socket(decoder)) return parts_.on_lost();
    if (fds[2].revents != 0) return;
  }
}

bool Channel::read_socket(Decoder& decoder) {
  char buffer[65536];
  const ssize_t count = ::recv(parts_.socket_fd, buffer, sizeof buffer, MSG_DONTWAIT);
  if (count < 0) return errno == EINTR || errno == EAGAIN;
  if (count == 0) return false;
  try {
    decoder.feed({buffer, static_cast<size_t>(count)});
    while (const std::optional<Message> message = decoder.next()) handle(*message);
  } catch (const Error&) {
    return false;  // not our agent any more: nothing it says can be trusted
  }
  return true;
}

void Channel::read_signals() {
  signalfd_siginfo info;
  while (::read(parts_.signals.get(), &info, sizeof info) == sizeof info) parts_.stop.raise(StopReason::kPreempted);
}

void Channel::handle(const Message& message) {
  if (const auto* stop = std::get_if<Stop>(&message)) parts_.stop.raise(stop->reason);
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (const auto* assign = std::get_if<Assign>(&message)) assign_ = *assign;
    if (std::holds_alternative<Go>(message) || std::holds_alternative<Stop>(message)) go_ = true;
    if (std::holds_alternative<Release>(message)) release_ = true;
    if (const auto* synced = std::get_if<Synced>(&message)) synced_ = synced->id;
  }
  changed_.notify_all();
}

}  // namespace gputrain

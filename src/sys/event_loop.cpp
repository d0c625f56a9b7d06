#include "sys/event_loop.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <map>
#include <unordered_map>
#include <utility>

#include <pthread.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "sys/fd.h"
#include "util/error.h"

namespace gputrain {
namespace {

[[noreturn]] void fail(const std::string& what) {
  const bool no_room = errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOSPC;
  throw Error(no_room ? ErrorKind::kEnvironment : ErrorKind::kInternal, what + ": " + errno_text(errno), "event loop");
}

}  // namespace

struct EventLoop::Impl {
  // Callbacks are shared so that one may remove itself while it runs.
  using Shared = std::shared_ptr<Callback>;
  struct Watch {
    Shared reader, writer;
    uint32_t generation = 0;  // tells a re-used descriptor number from the one an event was queued for
  };

  UniqueFd epoll{epoll_create1(EPOLL_CLOEXEC)};
  std::unordered_map<int, Watch> watches;
  uint32_t next_generation = 0;
  std::map<std::pair<MonotonicTime, TimerId>, Callback> timers;
  std::unordered_map<TimerId, MonotonicTime> timer_times;
  TimerId next_timer = 1;
  UniqueFd signal_fd;
  bool running = false;

  void watch(int fd, Shared Watch::*side, Callback callback);
  void unwatch(int fd, Shared Watch::*side);
  void update(int operation, int fd, const Watch& watch);
  void dispatch(const epoll_event& event);
  void fire_timers();
  int timeout_ms() const;
  void read_signals(const std::function<void(int)>& callback);
};

void EventLoop::Impl::update(int operation, int fd, const Watch& watch) {
  epoll_event event{};
  event.events = (watch.reader ? EPOLLIN : 0u) | (watch.writer ? EPOLLOUT : 0u);
  event.data.u64 = static_cast<uint64_t>(watch.generation) << 32 | static_cast<uint32_t>(fd);
  if (epoll_ctl(epoll.get(), operation, fd, &event) != 0) fail("cannot watch descriptor " + std::to_string(fd));
}

void EventLoop::Impl::watch(int fd, Shared Watch::*side, Callback callback) {
  const auto [entry, added] = watches.try_emplace(fd);
  if (added) entry->second.generation = next_generation++;
  entry->second.*side = std::make_shared<Callback>(std::move(callback));
  try {
    update(added ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, fd, entry->second);
  } catch (const Error&) {
    if (added) watches.erase(entry);
    throw;
  }
}

void EventLoop::Impl::unwatch(int fd, Shared Watch::*side) {
  const auto entry = watches.find(fd);
  if (entry == watches.end()) return;
  entry->second.*side = nullptr;
  if (entry->second.reader || entry->second.writer) {
    update(EPOLL_CTL_MOD, fd, entry->second);
  } else {
    epoll_ctl(epoll.get(), EPOLL_CTL_DEL, fd, nullptr);
    watches.erase(entry);
  }
}

void EventLoop::Impl::dispatch(const epoll_event& event) {
  const int fd = static_cast<int>(static_cast<uint32_t>(event.data.u64));
  const auto generation = static_cast<uint32_t>(event.data.u64 >> 32);
  const auto call = [&](Shared Watch::*side) {
    const auto entry = watches.find(fd);
    if (!running || entry == watches.end() || entry->second.generation != generation) return;
    if (const Shared callback = entry->second.*side) (*callback)();
  };
  const bool broken = (event.events & (EPOLLERR | EPOLLHUP)) != 0;
  if (broken || (event.events & EPOLLIN)) call(&Watch::reader);
  if (broken || (event.events & EPOLLOUT)) call(&Watch::writer);
}

// Only what was due on entry: a timer that sets itself again at once does not starve the descriptors.
void EventLoop::Impl::fire_timers() {
  const auto now = std::chrono::steady_clock::now();
  const TimerId limit = next_timer;
  auto due = timers.begin();
  while (running && due != timers.end() && due->first.first <= now) {
    const auto key = due->first;
    if (key.second < limit) {
      const Callback callback = std::move(due->second);
      timers.erase(due);
      timer_times.erase(key.second);
      callback();
    }
    due = timers.upper_bound(key);
  }
}

int EventLoop::Impl::timeout_ms() const {
  if (timers.empty()) return -1;
  const auto left = timers.begin()->first.first - std::chrono::steady_clock::now();
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(left).count();
  return static_cast<int>(std::clamp<int64_t>(ms, 0, INT_MAX));
}

void EventLoop::Impl::read_signals(const std::function<void(int)>& callback) {
  signalfd_siginfo info{};
  while (running && read(signal_fd.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    callback(static_cast<int>(info.ssi_signo));
  }
}

EventLoop::EventLoop() : impl_(std::make_unique<Impl>()) {
  if (!impl_->epoll) fail("epoll_create1");
}
EventLoop::~EventLoop() = default;

void EventLoop::watch_readable(int fd, Callback callback) {
  impl_->watch(fd, &Impl::Watch::reader, std::move(callback));
}
void EventLoop::watch_writable(int fd, Callback callback) {
  impl_->watch(fd, &Impl::Watch::writer, std::move(callback));
}
void EventLoop::unwatch_readable(int fd) {
  impl_->unwatch(fd, &Impl::Watch::reader);
}
void EventLoop::unwatch_writable(int fd) {
  impl_->unwatch(fd, &Impl::Watch::writer);
}

EventLoop::TimerId EventLoop::after(std::chrono::milliseconds delay, Callback callback) {
  const TimerId id = impl_->next_timer++;
  const auto when = std::chrono::steady_clock::now() + delay;
  impl_->timers.emplace(std::pair(when, id), std::move(callback));
  impl_->timer_times.emplace(id, when);
  return id;
}

void EventLoop::cancel(TimerId id) {
  const auto entry = impl_->timer_times.find(id);
  if (entry == impl_->timer_times.end()) return;
  impl_->timers.erase({entry->second, id});
  impl_->timer_times.erase(entry);
}

void EventLoop::watch_signals(const std::vector<int>& signals, std::function<void(int)> callback) {
  sigset_t set;
  sigemptyset(&set);
  for (int signal : signals) sigaddset(&set, signal);
  if (const int error = pthread_sigmask(SIG_BLOCK, &set, nullptr)) {
    errno = error;
    fail("cannot block signals");
  }
  impl_->signal_fd.reset(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!impl_->signal_fd) fail("signalfd");
  watch_readable(impl_->signal_fd.get(),
                 [impl = impl_.get(), callback = std::move(callback)] { impl->read_signals(callback); });
}

// Descriptors before timers: after a pause of this process, news that has arrived is heard before a deadline is judged.
void EventLoop::run() {
  impl_->running = true;
  epoll_event events[64];
  while (impl_->running) {
    const int count = epoll_wait(impl_->epoll.get(), events, 64, impl_->timeout_ms());
    if (count < 0 && errno != EINTR) fail("epoll_wait");
    for (int i = 0; i < count; ++i) impl_->dispatch(events[i]);
    impl_->fire_timers();
  }
}

void EventLoop::stop() {
  impl_->running = false;
}

}  // namespace gputrain

#include "launch/background.h"

#include <utility>

#include <sys/eventfd.h>
#include <unistd.h>

namespace gputrain {

Background::Background(EventLoop& loop) : loop_(loop), wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  GP_CHECK(wake_, "eventfd");
  loop_.watch_readable(wake_.get(), [this] { deliver(); });
  thread_ = std::thread([this] { run(); });
}

Background::~Background() {
  loop_.unwatch_readable(wake_.get());
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Background::post(std::function<void()> work, std::function<void(const Problem&)> done) {
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back({std::move(work), std::move(done), {}});
  }
  changed_.notify_all();
}

void Background::drain() {
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return waiting_.empty() && !busy_; });
  }
  deliver();
}

void Background::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stop_ || !waiting_.empty(); });
    if (stop_) return;
    Job job = std::move(waiting_.front());
    waiting_.pop_front();
    busy_ = true;
    lock.unlock();
    try {
      job.work();
    } catch (const Error& error) {
      job.problem = error;
    } catch (const std::exception& error) {
      job.problem = Error(ErrorKind::kInternal, error.what());
    }
    lock.lock();
    busy_ = false;
    finished_.push_back(std::move(job));
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(wake_.get(), &one, sizeof one);
    changed_.notify_all();
  }
}

void Background::deliver() {
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t got = ::read(wake_.get(), &count, sizeof count);
  std::deque<Job> finished;
  {
    const std::lock_guard lock(mutex_);
    finished.swap(finished_);
  }
  for (auto& job : finished) job.done(job.problem);
}

}  // namespace gputrain

#include "launch/journal_sync.h"

#include <utility>

#include <sys/eventfd.h>
#include <unistd.h>

#include "util/error.h"

namespace gputrain {

JournalSync::JournalSync(EventLoop& loop, Journal& journal)
    : loop_(loop), journal_(journal), wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  GP_CHECK(wake_, "eventfd");
  loop_.watch_readable(wake_.get(), [this] { deliver(); });
  thread_ = std::thread([this] { work(); });
}

JournalSync::~JournalSync() {
  loop_.unwatch_readable(wake_.get());
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void JournalSync::request(Done done) {
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(done));
  }
  changed_.notify_one();
}

// One sync serves all requests that came before it began.
void JournalSync::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stop_ || !waiting_.empty(); });
    if (stop_) return;
    auto batch = std::exchange(waiting_, {});
    lock.unlock();
    std::string problem;
    try {
      journal_.sync();
    } catch (const Error& error) {
      problem = error.message;
    }
    lock.lock();
    for (auto& done : batch) finished_.emplace_back(std::move(done), problem);
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(wake_.get(), &one, sizeof one);
  }
}

void JournalSync::deliver() {
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t got = ::read(wake_.get(), &count, sizeof count);
  std::deque<std::pair<Done, std::string>> finished;
  {
    const std::lock_guard lock(mutex_);
    finished.swap(finished_);
  }
  for (auto& [done, problem] : finished) done(problem);
}

}  // namespace gputrain

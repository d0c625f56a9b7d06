#include "launch/lock.h"

#include <cerrno>
#include <chrono>
#include <thread>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launch/lock_file.h"
#include "sys/process.h"
#include "util/error.h"

namespace gputrain {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kWatchStep{500};  // how often a waiting observer looks
constexpr int kLooks = 10;
constexpr milliseconds kBetweenLooks{100};
constexpr int kMaxTries = 8;  // lost races against other starters before giving up

Error in_use(const std::string& output, const LockInfo& holder) {
  return {
      ErrorKind::kOutput,
      "in use by a live run: pid " + std::to_string(holder.pid) + " on " + holder.host + " (run " + holder.run_id + ")",
      output, "stop it with `gputrain stop " + output + "`, or choose another output directory"};
}

// mkdir -p that remembers what it made. `path` is absolute or relative; existing directories are fine.
std::vector<std::string> make_directories(const std::string& path) {
  std::vector<std::string> created;
  for (size_t at = 1; at <= path.size(); ++at) {
    if (at < path.size() && path[at] != '/') continue;
    const std::string prefix = path.substr(0, at);
    if (::mkdir(prefix.c_str(), 0777) == 0) {
      created.push_back(prefix);
      continue;
    }
    const int error_number = errno;
    struct stat info {};
    if (::stat(prefix.c_str(), &info) == 0) {
      if (S_ISDIR(info.st_mode)) continue;
      remove_directories(created);
      throw Error(ErrorKind::kOutput, "not a directory but a file" + (prefix == path ? std::string() : ": " + prefix),
                  path, "choose another output directory");
    }
    remove_directories(created);
    throw Error(ErrorKind::kOutput, "cannot create the output directory: " + errno_text(error_number), path,
                "make " + prefix.substr(0, prefix.rfind('/') + 1) + " writable or choose another output directory");
  }
  return created;
}

// Waits until the holder's counter moves (alive: throws) or has stood still for kLockSilence.
void watch(const LockOptions& options, const LockInfo& holder) {
  if (options.notice) {
    options.notice("the lock of pid " + std::to_string(holder.pid) + " on " + holder.host +
                   " is watched for 20 s: it may be alive");
  }
  const MonotonicTime begin = options.clock->now();
  while (options.clock->now() - begin < kLockSilence) {
    options.sleep(kWatchStep);
    const auto now = read_lock(options.output);
    if (!now || !same_holder(*now, holder)) return;  // released or taken meanwhile: look again
    if (now->counter != holder.counter) throw in_use(options.output, *now);
  }
}

// Puts `temporary` in the place of the dead holder's lock. Of several starters link(2) lets one do so at a time; it
// looks again before it replaces. False: somebody else was faster.
bool take_over(const std::string& output, const std::string& temporary, const LockInfo& dead) {
  const std::string claim = output + "/lock.takeover";
  if (::link(temporary.c_str(), claim.c_str()) != 0) {
    // A claim is held for microseconds; one of a dead starter is cleared away.
    const auto claimant = read_lock_file(claim);
    if (claimant && judge_holder(claim, *claimant) == Liveness::kDead) ::unlink(claim.c_str());
    return false;
  }
  const auto now = read_lock(output);
  const bool still_dead = now && same_holder(*now, dead) && now->counter == dead.counter;
  const bool taken = still_dead && ::rename(temporary.c_str(), lock_path(output).c_str()) == 0;
  ::unlink(claim.c_str());
  return taken;
}

}  // namespace

std::optional<LockInfo> read_lock(const std::string& output) {
  return read_lock_file(lock_path(output));
}

Liveness judge_lock(const std::string& output, const LockInfo& lock) {
  return judge_holder(lock_path(output), lock);
}

std::unique_ptr<OutputLock> OutputLock::acquire(LockOptions options) {
  if (options.clock == nullptr) options.clock = &real_clock();
  if (!options.sleep) options.sleep = [](milliseconds time) { std::this_thread::sleep_for(time); };
  std::unique_ptr<OutputLock> lock(new OutputLock);
  lock->output_ = options.output;
  lock->self_ = options.self;
  if (lock->self_.host.empty()) lock->self_.host = host_name();
  if (lock->self_.boot_id.empty()) lock->self_.boot_id = boot_id();
  if (lock->self_.pid == 0) {
    lock->self_.pid = ::getpid();
    lock->self_.start_time = process_start_time(::getpid());
  }
  lock->created_ = make_directories(options.output);
  lock->take(options);
  return lock;
}

void OutputLock::take(const LockOptions& options) {
  const std::string path = lock_path(output_);
  const std::string temporary =
      output_ + "/.lock-" + self_.host + "-" + std::to_string(self_.pid) + "-" + std::to_string(self_.start_time);
  UniqueFd fd = create_lock_file(temporary, self_, output_);
  struct Cleanup {
    const std::string& path;
    ~Cleanup() { ::unlink(path.c_str()); }
  } cleanup{temporary};
  for (int attempt = 0; attempt < kMaxTries; ++attempt) {
    if (::link(temporary.c_str(), path.c_str()) == 0) {
      fd_ = std::move(fd);
      return;
    }
    if (errno != EEXIST) {
      throw Error(ErrorKind::kOutput, "cannot create the lock: " + errno_text(errno), output_,
                  "the output directory must be on a file system with hard links");
    }
    const auto holder = read_lock(output_);
    if (!holder) continue;
    Liveness liveness = judge_lock(output_, *holder);
    // A holder that was killed a moment ago takes a while to disappear: look again before refusing.
    for (int look = 0; look < kLooks && liveness == Liveness::kAlive; ++look) {
      options.sleep(kBetweenLooks);
      liveness = judge_lock(output_, *holder);
    }
    if (liveness == Liveness::kAlive) throw in_use(output_, *holder);
    if (liveness == Liveness::kUnknown) {
      watch(options, *holder);
      const auto now = read_lock(output_);
      if (!now || !same_holder(*now, *holder)) continue;
    }
    if (take_over(output_, temporary, *holder)) {
      fd_ = std::move(fd);
      predecessor_ = holder;
      if (options.notice) {
        options.notice("took over the lock of pid " + std::to_string(holder->pid) + " on " + holder->host +
                       ", which is gone");
      }
      return;
    }
    options.sleep(milliseconds(10 * (attempt + 1)));
  }
  throw Error(ErrorKind::kOutput, "others are starting a run here at the same time", output_, "try again");
}

OutputLock::~OutputLock() {
  release();
}

bool OutputLock::beat() {
  ++self_.counter;
  return write();
}

bool OutputLock::set_attempt(int attempt) {
  self_.attempt = attempt;
  return write();
}

bool OutputLock::still_ours() const {
  struct stat held {
  }, named{};
  return fd_ && ::fstat(fd_.get(), &held) == 0 && ::stat(lock_path(output_).c_str(), &named) == 0 &&
         held.st_ino == named.st_ino && held.st_dev == named.st_dev;
}

bool OutputLock::write() {
  if (!still_ours()) return false;
  write_lock_file(fd_.get(), self_, output_);
  return true;
}

void OutputLock::release() {
  if (fd_ && still_ours()) ::unlink(lock_path(output_).c_str());
  fd_.reset();
  remove_directories(created_);
  created_.clear();
}

}  // namespace gputrain

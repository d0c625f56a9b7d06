#include "launch/lock.h"

#include <cerrno>
#include <chrono>
#include <thread>

#include <sys/stat.h>
#include <unistd.h>

#include "launch/lock_file.h"
#include "sys/files.h"
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
  const std::string there = is_of_this_host(holder) || holder.torn ? "" : " on " + holder.host;
  return {ErrorKind::kOutput,
          "in use by a live run: " + holder_text(holder) + (holder.torn ? "" : " (run " + holder.run_id + ")"), output,
          "stop it with `gputrain stop " + output + "`" + there + ", or choose another output directory"};
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
    options.notice("the lock of " + holder_text(holder) + " is watched for 20 s: it may be alive");
  }
  const MonotonicTime begin = options.clock->now();
  while (options.clock->now() - begin < kLockSilence) {
    options.sleep(kWatchStep);
    const auto now = read_lock(options.output);
    if (!now || !same_holder(*now, holder)) return;  // released or taken meanwhile: look again
    if (now->counter != holder.counter) throw in_use(options.output, *now);
  }
}

// A lock under a name of its own until it stands in its place. It exists for moments only, never while its maker waits:
// a signal then leaves nothing behind.
class PendingLock {
 public:
  PendingLock(const std::string& output, const LockInfo& self)
      : path_(pending_lock_path(output, self)), fd_(create_lock_file(path_, self, output)) {}
  ~PendingLock() { ::unlink(path_.c_str()); }
  PendingLock(const PendingLock&) = delete;
  PendingLock& operator=(const PendingLock&) = delete;
  const char* path() const { return path_.c_str(); }
  UniqueFd& fd() { return fd_; }

 private:
  std::string path_;
  UniqueFd fd_;
};

// A claim is held for microseconds. One of a dead starter is cleared away; one whose starter nobody knows here (another
// host or boot, torn) when it has stood for as long as a silent lock.
void clear_dead_claim(const LockOptions& options, const std::string& claim) {
  const FileId before = file_id(claim);
  Liveness liveness = Liveness::kUnknown;
  try {
    const auto claimant = read_lock_file(claim);
    if (claimant) liveness = judge_holder(claim, *claimant);
  } catch (const Error&) {  // no lock's text: nobody makes such a claim
  }
  if (liveness == Liveness::kAlive) return;
  if (liveness == Liveness::kUnknown) {
    if (options.notice) options.notice(claim + " is watched for 20 s: another start may be at work");
    const MonotonicTime begin = options.clock->now();
    while (options.clock->now() - begin < kLockSilence && file_id(claim) == before) options.sleep(kWatchStep);
  }
  if (file_id(claim) == before) ::unlink(claim.c_str());
}

std::string taken_over_text(const std::string& output, const LockInfo& holder) {
  const std::string who = "lock of " + holder_text(holder);
  if (holder.torn) return "took over the " + who;
  if (is_of_this_host(holder) && is_copy(lock_path(output), holder)) return "replaced a copied " + who;
  return "took over the " + who + ", which is gone";
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
  remove_dead_pending_locks(output_);
  for (int attempt = 0; attempt < kMaxTries; ++attempt) {
    if (take_free()) return;
    const auto holder = read_lock(output_);
    if (!holder) continue;
    refuse_or_watch(options, *holder);
    const std::string text = taken_over_text(output_, *holder);
    if (take_over(options, *holder)) {
      predecessor_ = holder;
      if (options.notice) options.notice(text);
      return;
    }
    options.sleep(milliseconds(10 * (attempt + 1)));
  }
  throw Error(ErrorKind::kOutput, "others are starting a run here at the same time", output_, "try again");
}

bool OutputLock::take_free() {
  PendingLock pending(output_, self_);
  if (::link(pending.path(), lock_path(output_).c_str()) == 0) {
    fd_ = std::move(pending.fd());
    return true;
  }
  if (errno == EEXIST) return false;
  throw Error(ErrorKind::kOutput, "cannot create the lock: " + errno_text(errno), output_,
              "the output directory must be on a file system with hard links");
}

// Returns when the holder is dead (or has gone meanwhile); throws when it lives.
void OutputLock::refuse_or_watch(const LockOptions& options, const LockInfo& holder) const {
  Liveness liveness = judge_lock(output_, holder);
  // A holder that was killed a moment ago takes a while to disappear: look again before refusing.
  for (int look = 0; look < kLooks && liveness == Liveness::kAlive; ++look) {
    options.sleep(kBetweenLooks);
    liveness = judge_lock(output_, holder);
  }
  if (liveness == Liveness::kAlive) throw in_use(output_, holder);
  if (liveness == Liveness::kUnknown) watch(options, holder);
}

// Puts a new lock in the place of the dead holder's. Of several starters link(2) lets one do so at a time; it looks
// again before it replaces. False: somebody else was faster.
bool OutputLock::take_over(const LockOptions& options, const LockInfo& dead) {
  PendingLock pending(output_, self_);
  const std::string claim = output_ + "/lock.takeover";
  if (::link(pending.path(), claim.c_str()) != 0) {
    clear_dead_claim(options, claim);
    return false;
  }
  const auto now = read_lock(output_);
  const bool still_dead = now && same_holder(*now, dead) && now->counter == dead.counter;
  const bool taken = still_dead && ::rename(pending.path(), lock_path(output_).c_str()) == 0;
  ::unlink(claim.c_str());
  if (taken) fd_ = std::move(pending.fd());
  return taken;
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
  return fd_ && file_id(fd_.get()) == file_id(lock_path(output_));
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

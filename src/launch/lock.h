#pragma once
// OUTPUT/lock: one live run in an output directory, on any file system, from any host.
//
// The file is one JSON object {run_id, host, boot_id, pid, start_time, attempt, counter, socket, inode}. Its holder
// moves `counter` every 5 s. Nobody compares clocks or mtimes: the holder is dead when it was on this host since this
// boot and its pid/start time is gone, or when the counter stood still for 20 s of the observer's own monotonic clock.
// A flock (CLOEXEC) on the file proves life where it works. A copied run directory has a lock that holds nothing: its
// inode is not the one that it names.
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sys/clock.h"
#include "sys/fd.h"

namespace gputrain {

struct LockInfo {
  std::string run_id;
  std::string host;
  std::string boot_id;
  int pid = 0;
  uint64_t start_time = 0;  // clock ticks since boot: with the pid it names a process for good
  int attempt = 0;
  int64_t counter = 0;
  std::string socket;  // control socket, "" = none
  uint64_t inode = 0;  // of the file itself, as it was written: a copy of the file has another
  bool torn = false;   // empty or zeros, as a power cut leaves it: nothing else is known
};

// "pid 7 on gpu-1".
std::string holder_text(const LockInfo& holder);
// The same process took both (the counter and attempt may differ).
bool same_holder(const LockInfo& a, const LockInfo& b);

// The lock of a run directory: nullopt when there is none. Text that is no lock throws Error(kOutput).
std::optional<LockInfo> read_lock(const std::string& output);

// Whether the holder provably lives or provably died, without waiting; unknown: watch the counter.
enum class Liveness { kAlive, kDead, kUnknown };
Liveness judge_lock(const std::string& output, const LockInfo& lock);
// Whether the holder runs, or ran, on this host since this boot: only then its pid and socket mean anything here.
bool is_of_this_host(const LockInfo& lock);

inline constexpr std::chrono::seconds kLockBeat{5};
inline constexpr std::chrono::seconds kLockSilence{20};

struct LockOptions {
  std::string output;
  LockInfo self;                                         // run_id, attempt, socket; the rest is filled in
  std::function<void(const std::string&)> notice;        // "taking over from ..."; may be empty
  Clock* clock = nullptr;                                // nullptr: real_clock()
  std::function<void(std::chrono::milliseconds)> sleep;  // empty: a real sleep
};

class OutputLock {
 public:
  // Checks that OUTPUT can be a run directory (made with its parents when missing) and takes the lock; waits up to 20 s
  // for the counter of a holder that nothing else tells about: on another host, of another boot, of a torn lock, or,
  // where flock does not work, one whose lock looks like a copy. Throws Error(kOutput): a plain file, read-only, full,
  // or locked by a live run (host and pid named).
  static std::unique_ptr<OutputLock> acquire(LockOptions options);
  // Releases.
  ~OutputLock();
  OutputLock(const OutputLock&) = delete;
  OutputLock& operator=(const OutputLock&) = delete;

  // Moves the counter. False when the lock is no longer ours: another run took over, this one must stop at once.
  bool beat();
  bool set_attempt(int attempt);  // as beat()
  // The run has begun: directories made for the lock stay.
  void keep_directories() { created_.clear(); }
  // Removes the lock, and the directories made for it unless kept (only empty ones). Idempotent, never throws.
  void release();

  // The dead holder whose place was taken, if any.
  const std::optional<LockInfo>& predecessor() const { return predecessor_; }
  const LockInfo& info() const { return self_; }

 private:
  OutputLock() = default;
  void take(const LockOptions& options);
  bool take_free();
  bool take_over(const LockOptions& options, const LockInfo& dead);
  void refuse_or_watch(const LockOptions& options, const LockInfo& holder) const;
  bool still_ours() const;
  bool write();

  std::string output_;
  LockInfo self_;
  UniqueFd fd_;
  std::vector<std::string> created_;  // directories, outermost first
  std::optional<LockInfo> predecessor_;
};

}  // namespace gputrain

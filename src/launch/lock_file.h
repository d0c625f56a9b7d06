#pragma once
// The lock's file: its text, and what can be said about its holder without waiting. Internal to OutputLock.
#include <optional>
#include <string>
#include <vector>

#include "launch/lock.h"
#include "sys/fd.h"

namespace gputrain {

std::string lock_path(const std::string& output);

// nullopt when there is none; `torn` when it is empty or zeros. Text that is no lock, or something that is no file,
// throws Error(kOutput).
std::optional<LockInfo> read_lock_file(const std::string& path);

// Creates `path` (replacing a leftover) with `info`, flocked where the file system can. Throws Error(kOutput), `where`
// = output.
UniqueFd create_lock_file(const std::string& path, const LockInfo& info, const std::string& output);

// The name under which `self` prepares its lock: it ends with the process.
std::string pending_lock_path(const std::string& output, const LockInfo& self);
// Removes what starters that were killed while they prepared theirs have left.
void remove_dead_pending_locks(const std::string& output);

// Rewrites the text in place with one pwrite: readers see the old or the new one.
void write_lock_file(int fd, const LockInfo& info, const std::string& output);

// A copy of a lock (cp -r of a run directory) has another inode than its text says.
bool is_copy(const std::string& path, const LockInfo& holder);
// A copy is kDead where flock works. Elsewhere inodes may be made up as well: a file that looks like a copy is
// kUnknown.
Liveness judge_holder(const std::string& path, const LockInfo& holder);

// rmdir, innermost first; directories that are not empty stay.
void remove_directories(const std::vector<std::string>& outermost_first);

}  // namespace gputrain

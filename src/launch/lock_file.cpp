#include "launch/lock_file.h"

#include <cerrno>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "sys/files.h"
#include "sys/fs.h"
#include "sys/process.h"
#include "util/error.h"
#include "util/json.h"
#include "util/text.h"

namespace gputrain {
namespace {

constexpr const char* kPending = ".lock-";
constexpr size_t kTextSize = 1024;  // padded, so that each rewrite covers the one before

std::string text_of(const LockInfo& info, uint64_t inode) {
  std::string text = dump_line(Json{{"run_id", info.run_id},
                                    {"host", info.host},
                                    {"boot_id", info.boot_id},
                                    {"pid", info.pid},
                                    {"start_time", info.start_time},
                                    {"attempt", info.attempt},
                                    {"counter", info.counter},
                                    {"socket", info.socket},
                                    {"inode", inode}});
  if (text.size() < kTextSize) text.append(kTextSize - text.size() - 1, ' ');
  return text + "\n";
}

std::string read_text(int fd) {
  char buffer[4 * kTextSize];
  const ssize_t got = ::pread(fd, buffer, sizeof buffer, 0);
  return got > 0 ? std::string(buffer, static_cast<size_t>(got)) : std::string();
}

// Before the file gets its name: machines are taken away without a word.
void sync_lock_file(int fd, const std::string& output) {
  if (::fdatasync(fd) == 0 || errno == EINVAL || errno == ENOTSUP || errno == EINTR) return;
  throw Error(ErrorKind::kOutput, "cannot write the lock: " + errno_text(errno), output,
              "free some space or choose another output directory");
}

bool is_running(int pid, uint64_t start_time) {
  const auto stat = pid > 0 ? process_stat(pid) : std::nullopt;
  return stat && stat->start_time == start_time && stat->state != 'Z' && stat->state != 'X';
}

}  // namespace

std::string lock_path(const std::string& output) {
  return output + "/lock";
}

std::optional<LockInfo> read_lock_file(const std::string& path) {
  const UniqueFd fd = open_file(path, O_RDONLY | O_NOFOLLOW);
  if (!fd) {
    if (errno == ENOENT || errno == ENOTDIR) return std::nullopt;
    if (errno == ELOOP) {
      throw Error(ErrorKind::kOutput, "a symbolic link, not a gputrain lock", path, "remove it and launch again");
    }
    throw Error(ErrorKind::kOutput, "cannot read the lock: " + errno_text(errno), path);
  }
  const std::string text = read_text(fd.get());
  if (text.find_first_not_of('\0') == std::string::npos) {
    LockInfo torn;
    torn.torn = true;
    return torn;
  }
  try {
    const Json json = parse_json(trim(text), path);
    return LockInfo{json.at("run_id"),  json.at("host"),    json.at("boot_id"), json.at("pid"),   json.at("start_time"),
                    json.at("attempt"), json.at("counter"), json.at("socket"),  json.at("inode"), false};
  } catch (const std::exception&) {
    throw Error(ErrorKind::kOutput, "this is not a gputrain lock", path,
                "if no run is active there, remove the file and launch again");
  }
}

std::string holder_text(const LockInfo& holder) {
  if (holder.torn) return "nobody known (the file is empty, as after a power cut)";
  return "pid " + std::to_string(holder.pid) + " on " + holder.host;
}

UniqueFd create_lock_file(const std::string& path, const LockInfo& info, const std::string& output) {
  ::unlink(path.c_str());
  UniqueFd fd = open_file(path, O_RDWR | O_CREAT | O_EXCL);
  if (!fd) {
    throw Error(ErrorKind::kOutput, "cannot write into the output directory: " + errno_text(errno), output,
                "make it writable or choose another output directory");
  }
  ::flock(fd.get(), LOCK_EX | LOCK_NB);  // fails where there is no flock: then the counter alone speaks
  try {
    write_lock_file(fd.get(), info, output);
    sync_lock_file(fd.get(), output);
  } catch (const Error&) {
    ::unlink(path.c_str());
    throw;
  }
  return fd;
}

void write_lock_file(int fd, const LockInfo& info, const std::string& output) {
  const std::string text = text_of(info, file_id(fd).inode);
  ssize_t written;
  do written = ::pwrite(fd, text.data(), text.size(), 0);
  while (written < 0 && errno == EINTR);
  if (written == static_cast<ssize_t>(text.size())) return;
  throw Error(ErrorKind::kOutput, "cannot write the lock: " + errno_text(written < 0 ? errno : ENOSPC), output,
              "free some space or choose another output directory");
}

bool same_holder(const LockInfo& a, const LockInfo& b) {
  return a.run_id == b.run_id && a.host == b.host && a.boot_id == b.boot_id && a.pid == b.pid &&
         a.start_time == b.start_time;
}

std::string pending_lock_path(const std::string& output, const LockInfo& self) {
  return output + "/" + kPending + self.host + "-" + std::to_string(self.pid) + "-" + std::to_string(self.start_time);
}

void remove_dead_pending_locks(const std::string& output) {
  for (const auto& name : real_file_system().list(output)) {
    if (!name.starts_with(kPending)) continue;
    const std::string path = output + "/" + name;
    try {
      const auto starter = read_lock_file(path);
      if (starter && !starter->torn && judge_holder(path, *starter) == Liveness::kDead) ::unlink(path.c_str());
    } catch (const Error&) {  // not written yet, or no lock at all
    }
  }
}

bool is_of_this_host(const LockInfo& lock) {
  return !lock.torn && lock.host == host_name() && lock.boot_id == boot_id();
}

bool is_copy(const std::string& path, const LockInfo& holder) {
  return file_id(path).inode != holder.inode;
}

Liveness judge_holder(const std::string& path, const LockInfo& holder) {
  const UniqueFd fd = open_file(path, O_RDONLY | O_NOFOLLOW);
  // A shared request, so that two observers do not take each other for the holder.
  const bool flocked = fd && ::flock(fd.get(), LOCK_SH | LOCK_NB) == 0;
  if (fd && !flocked && errno == EWOULDBLOCK) return Liveness::kAlive;
  if (!is_of_this_host(holder)) return Liveness::kUnknown;
  // Where nothing can be flocked inodes may be made up as well: the counter must tell.
  if (is_copy(path, holder)) return flocked ? Liveness::kDead : Liveness::kUnknown;
  return holder.start_time != 0 && is_running(holder.pid, holder.start_time) ? Liveness::kAlive : Liveness::kDead;
}

void remove_directories(const std::vector<std::string>& outermost_first) {
  for (auto path = outermost_first.rbegin(); path != outermost_first.rend(); ++path) ::rmdir(path->c_str());
}

}  // namespace gputrain

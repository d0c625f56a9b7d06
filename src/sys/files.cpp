#include "sys/files.h"

#include <algorithm>
#include <cerrno>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "util/error.h"

namespace gputrain {
namespace {

// Linux caps a single read or write at 0x7ffff000 bytes; smaller pieces also keep the kernel's write-back moving.
constexpr size_t kMaxTransfer = size_t{64} << 20;

const char* kind_of(mode_t mode) {
  return S_ISFIFO(mode) ? "a pipe" : S_ISSOCK(mode) ? "a socket" : "a device";
}

// Devices may be written to (/dev/null, /dev/full); read, /dev/zero has no end.
bool would_wait(mode_t mode, int flags) {
  const bool device = S_ISCHR(mode) || S_ISBLK(mode);
  return device ? (flags & O_ACCMODE) == O_RDONLY : !S_ISDIR(mode) && !S_ISREG(mode);
}

}  // namespace

UniqueFd open_file(const std::string& path, int flags, mode_t mode) {
  int opened;
  do opened = ::open(path.c_str(), flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, mode);
  while (opened < 0 && errno == EINTR);
  UniqueFd fd(opened);
  struct stat status {};
  // A socket cannot be opened at all, a pipe not for writing while nobody reads it: both ENXIO.
  const bool known = fd ? ::fstat(fd.get(), &status) == 0 : errno == ENXIO && ::stat(path.c_str(), &status) == 0;
  if (!known) return fd;
  if (S_ISDIR(status.st_mode) && (flags & O_DIRECTORY) == 0) {
    fd.reset();
    errno = EISDIR;
  } else if (would_wait(status.st_mode, flags)) {
    throw Error(ErrorKind::kOutput, "cannot open " + path + ": it is " + kind_of(status.st_mode) + ", not a file");
  }
  return fd;
}

size_t write_all(int fd, std::string_view bytes) {
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t written = ::write(fd, bytes.data() + done, std::min(bytes.size() - done, kMaxTransfer));
    if (written < 0 && errno == EINTR) continue;
    if (written == 0) errno = ENOSPC;
    if (written <= 0) break;
    done += static_cast<size_t>(written);
  }
  return done;
}

FileId file_id(int fd) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) return {};
  return {status.st_dev, status.st_ino};
}

FileId file_id(const std::string& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) return {};
  return {status.st_dev, status.st_ino};
}

UniqueFd lock_directory(const std::string& path) {
  UniqueFd fd = open_file(path, O_RDONLY | O_DIRECTORY);
  int result = -1;
  do result = fd ? ::flock(fd.get(), LOCK_EX) : -1;
  while (result != 0 && fd && errno == EINTR);
  if (result != 0) fd.reset();
  return fd;
}

void set_nonblocking(int fd) {
  ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
}

}  // namespace gputrain

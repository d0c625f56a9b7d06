#pragma once
// Files that are held open as descriptors (locks, journals, logs). Whole files: sys/fs.h.
#include <cstdint>
#include <string>
#include <string_view>

#include <sys/types.h>

#include "sys/fd.h"

namespace gputrain {

// open(2) with O_CLOEXEC; empty with errno set when it fails, also for a directory without O_DIRECTORY. Never waits: a
// pipe or socket in the place of a file is an Error(kOutput) that names it, so is a device that would be read.
UniqueFd open_file(const std::string& path, int flags, mode_t mode = 0644);

// The number of bytes written; fewer than all: errno says why.
size_t write_all(int fd, std::string_view bytes);

// What a file keeps under each of its names, and no copy of it has.
struct FileId {
  uint64_t device = 0, inode = 0;
  bool operator==(const FileId&) const = default;
};
FileId file_id(int fd);                   // zeros when it cannot be told
FileId file_id(const std::string& path);  // of a symbolic link itself

// Waits for a flock on the directory, held until the descriptor is closed; empty where that cannot be had (no such
// directory, a file system without flock).
UniqueFd lock_directory(const std::string& path);

void set_nonblocking(int fd);

}  // namespace gputrain

#include "data/data_file.h"

#include <cerrno>
#include <cstring>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "util/text.h"

namespace gputrain {
namespace {

bool exists(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
}

// MNIST-like files circulate as train-images-idx3-ubyte and train-images.idx3-ubyte, with and without .gz.
std::vector<std::string> other_spellings(const std::string& path) {
  const bool packed = path.ends_with(".gz");
  const std::string plain = packed ? path.substr(0, path.size() - 3) : path;
  std::string swapped = plain;
  const size_t at = plain.rfind("idx"), slash = plain.rfind('/');
  const bool in_name = at != std::string::npos && at > 0 && (slash == std::string::npos || at > slash + 1);
  if (in_name && plain[at - 1] == '-') swapped[at - 1] = '.';
  if (in_name && plain[at - 1] == '.') swapped[at - 1] = '-';
  std::vector<std::string> names{packed ? plain : plain + ".gz"};
  if (swapped != plain)
    names.insert(names.end(), {packed ? swapped + ".gz" : swapped, packed ? swapped : swapped + ".gz"});
  return names;
}

}  // namespace

DataFile::DataFile(std::string path, std::string role) : path_(std::move(path)), role_(std::move(role)) {
  // O_NONBLOCK: a pipe in the place of a file is told below, and not waited for.
  fd_.reset(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd_) {
    const int reason = errno;
    std::string hint = reason == ENOENT ? "check the path" : "";
    if (reason == ENOENT) {
      for (const auto& name : other_spellings(path_)) {
        if (!exists(name)) continue;
        hint = "there is " + name + ": did you mean that?";
        break;
      }
    }
    throw error("cannot be opened: " + errno_text(reason), hint);
  }
  struct stat status {};
  if (::fstat(fd_.get(), &status) != 0) throw error("cannot be examined: " + errno_text(errno));
  if (!S_ISREG(status.st_mode)) {
    throw error(S_ISDIR(status.st_mode) ? "is a directory, not a file" : "is not a regular file",
                "name the file itself");
  }
  size_ = status.st_size;
}

size_t DataFile::read_some(int64_t offset, std::span<char> out) const {
  size_t done = 0;
  while (done < out.size()) {
    const ssize_t got = ::pread(fd_.get(), out.data() + done, out.size() - done, offset + static_cast<int64_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw error("cannot be read at byte " + std::to_string(offset) + ": " + errno_text(errno));
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  return done;
}

void DataFile::read_at(int64_t offset, std::span<char> out) const {
  if (map_) {
    GP_CHECK(offset >= 0 && offset + std::ssize(out) <= size_, "read within the file");
    std::memcpy(out.data(), map_.get() + offset, out.size());
    return;
  }
  const size_t got = read_some(offset, out);
  if (got != out.size()) shrunk(offset + static_cast<int64_t>(got));
}

void DataFile::shrunk(int64_t end) const {
  throw error("has become shorter: it had " + std::to_string(size_) +
                  " bytes when it was opened, now it ends at byte " + std::to_string(end),
              "do not change data files while a run uses them");
}

void DataFile::expect_scattered_reads() {
  constexpr int64_t kLargestMap = int64_t{1} << 30;
  if (size_ > kLargestMap) {
    ::posix_fadvise(fd_.get(), 0, 0, POSIX_FADV_RANDOM);
    return;
  }
  const auto bytes = static_cast<size_t>(size_);
  void* map = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd_.get(), 0);
  if (map == MAP_FAILED) return;  // some file systems cannot: pread does
  map_ = {static_cast<const char*>(map), [bytes](const char* begin) { ::munmap(const_cast<char*>(begin), bytes); }};
}

void DataFile::check_size() const {
  struct stat status {};
  if (::fstat(fd_.get(), &status) != 0) throw error("cannot be examined: " + errno_text(errno));
  if (status.st_size < size_) shrunk(status.st_size);
}

Error DataFile::error(const std::string& what, const std::string& hint) const {
  return Error(ErrorKind::kData, role_ + " " + what, path_, hint);
}

bool is_gzip(std::string_view head) {
  return head.starts_with("\x1f\x8b");
}

}  // namespace gputrain

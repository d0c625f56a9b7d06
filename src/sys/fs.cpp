#include "sys/fs.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "sys/files.h"
#include "util/error.h"

namespace gputrain {
namespace {

namespace stdfs = std::filesystem;

[[noreturn]] void fail(const std::string& what, const std::string& path, int error_number) {
  throw Error(ErrorKind::kOutput, "cannot " + what + " " + path + ": " + errno_text(error_number));
}

constexpr size_t kMaxTransfer = size_t{64} << 20;  // of one read; Linux caps it at 0x7ffff000 bytes

UniqueFd open_or_fail(const std::string& path, int flags, const char* what) {
  UniqueFd fd = open_file(path, flags);
  if (!fd) fail(what, path, errno);
  return fd;
}

int sync_retrying(int fd) {
  int result;
  do result = ::fsync(fd);
  while (result != 0 && errno == EINTR);
  return result;
}

class RealWritableFile : public WritableFile {
 public:
  explicit RealWritableFile(const std::string& path)
      : path_(path), file_(open_or_fail(path, O_WRONLY | O_CREAT | O_EXCL, "create")) {}

  void append(std::span<const char> bytes) override {
    if (write_all(file_.get(), {bytes.data(), bytes.size()}) < bytes.size()) fail("write", path_, errno);
  }
  void sync() override {
    if (sync_retrying(file_.get()) != 0) fail("write", path_, errno);
  }
  void close() override {
    const int fd = file_.release();
    // After EINTR the descriptor is gone on Linux: closing again could close somebody else's.
    if (fd >= 0 && ::close(fd) != 0 && errno != EINTR) fail("write", path_, errno);
  }

 private:
  std::string path_;
  UniqueFd file_;
};

void read_fully(int fd, const std::string& path, int64_t offset, std::span<char> out) {
  while (!out.empty()) {
    const ssize_t got = ::pread(fd, out.data(), std::min(out.size(), kMaxTransfer), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail("read", path, errno);
    if (got == 0) {
      throw Error(ErrorKind::kOutput, "cannot read " + path + ": the file ends at byte " + std::to_string(offset) +
                                          ", " + std::to_string(out.size()) + " bytes before the expected end");
    }
    offset += got;
    out = out.subspan(static_cast<size_t>(got));
  }
}

std::string read_to_end(int fd, const std::string& path) {
  std::string bytes;
  char piece[4096];
  for (;;) {
    const ssize_t got = ::read(fd, piece, sizeof piece);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail("read", path, errno);
    if (got == 0) return bytes;
    bytes.append(piece, static_cast<size_t>(got));
  }
}

class RealFileSystem : public FileSystem {
 public:
  std::unique_ptr<WritableFile> create(const std::string& path) override {
    return std::make_unique<RealWritableFile>(path);
  }

  std::string read(const std::string& path) override {
    const UniqueFd file = open_or_fail(path, O_RDONLY, "read");
    struct stat status;
    if (::fstat(file.get(), &status) != 0) fail("read", path, errno);
    std::string bytes(static_cast<size_t>(status.st_size), '\0');
    if (bytes.empty()) return read_to_end(file.get(), path);  // files in /proc give no size
    read_fully(file.get(), path, 0, bytes);
    return bytes;
  }

  void read_at(const std::string& path, int64_t offset, std::span<char> out) override {
    const UniqueFd file = open_or_fail(path, O_RDONLY, "read");
    read_fully(file.get(), path, offset, out);
  }

  int64_t size(const std::string& path) override {
    struct stat status;
    if (::stat(path.c_str(), &status) != 0) fail("read", path, errno);
    if (S_ISDIR(status.st_mode)) fail("read", path, EISDIR);
    if (!S_ISREG(status.st_mode)) open_file(path, O_RDONLY);  // says what it is
    return status.st_size;
  }

  bool exists(const std::string& path) override {
    struct stat status;
    if (::stat(path.c_str(), &status) == 0) return true;
    if (errno == ENOENT || errno == ENOTDIR) return false;
    fail("look at", path, errno);
  }

  std::vector<std::string> list(const std::string& directory) override {
    std::error_code code;
    stdfs::directory_iterator entries(directory, code);
    if (code == std::errc::no_such_file_or_directory) return {};
    std::vector<std::string> names;
    for (; !code && entries != stdfs::directory_iterator(); entries.increment(code)) {
      names.push_back(entries->path().filename().string());
    }
    if (code) fail("list", directory, code.value());
    std::sort(names.begin(), names.end());
    return names;
  }

  void make_directories(const std::string& path) override {
    std::error_code code;
    stdfs::create_directories(path, code);
    if (code) fail("create the directory", path, code.value());
  }

  void rename(const std::string& from, const std::string& to) override {
    if (::rename(from.c_str(), to.c_str()) != 0) fail("rename " + from + " to", to, errno);
  }

  void remove_all(const std::string& path) override {
    std::error_code code;
    stdfs::remove_all(path, code);
    // Somebody else removing the same tree at the same time is success as well.
    const bool missing = code == std::errc::no_such_file_or_directory || code == std::errc::not_a_directory;
    if (code && !missing) fail("remove", path, code.value());
  }

  void sync_directory(const std::string& path) override {
    const UniqueFd directory = open_or_fail(path, O_RDONLY | O_DIRECTORY, "open the directory");
    // EINVAL: a file system that cannot sync directories (some network and FUSE ones); their renames are synchronous.
    if (sync_retrying(directory.get()) != 0 && errno != EINVAL) fail("sync the directory", path, errno);
  }

  int64_t free_bytes(const std::string& path) override {
    struct statvfs status;
    if (::statvfs(path.c_str(), &status) != 0) fail("measure the free space of", path, errno);
    return static_cast<int64_t>(status.f_bavail) * static_cast<int64_t>(status.f_frsize);
  }
};

}  // namespace

FileSystem& real_file_system() {
  static RealFileSystem fs;
  return fs;
}

void write_file_atomically(FileSystem& fs, const std::string& path, std::string_view bytes) {
  const std::string temporary = path + ".tmp";
  fs.remove_all(temporary);  // left by a writer that died
  try {
    const std::unique_ptr<WritableFile> file = fs.create(temporary);
    file->append(bytes);
    file->sync();
    file->close();
    fs.rename(temporary, path);
  } catch (const Error&) {
    try {
      fs.remove_all(temporary);
    } catch (const Error&) {  // the first error is the one to report
    }
    throw;
  }
  const std::string parent = stdfs::path(path).parent_path().string();
  fs.sync_directory(parent.empty() ? "." : parent);
}

}  // namespace gputrain

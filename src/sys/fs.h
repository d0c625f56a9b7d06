#pragma once
// The file system behind a small interface, so that tests can fail or crash it at the k-th operation
// (tests/support/faulty_fs.h).
//
// Every method throws Error of kind kOutput ("cannot write PATH: No space left on device") unless it says otherwise;
// callers that know better (a checkpoint, a data set) catch and re-throw with their own kind. Thread-safe unless an
// object says otherwise.
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gputrain {

// A file being written from the start. Not thread-safe.
class WritableFile {
 public:
  virtual ~WritableFile() = default;  // closes without reporting: call close() to learn of write-back errors
  virtual void append(std::span<const char> bytes) = 0;
  virtual void sync() = 0;   // fsync: what was appended survives a power loss
  virtual void close() = 0;  // reports errors of close(2); idempotent
};

class FileSystem {
 public:
  virtual ~FileSystem() = default;

  // Creates a file that must not exist (O_EXCL).
  virtual std::unique_ptr<WritableFile> create(const std::string& path) = 0;
  // The whole file. A missing one is an Error too; ask exists() first where absence is ordinary.
  virtual std::string read(const std::string& path) = 0;
  // Bytes [offset, offset + out.size()) of the file; an Error when it is shorter.
  virtual void read_at(const std::string& path, int64_t offset, std::span<char> out) = 0;
  virtual int64_t size(const std::string& path) = 0;
  virtual bool exists(const std::string& path) = 0;
  // Names (not paths) in a directory, sorted; empty for a missing directory.
  virtual std::vector<std::string> list(const std::string& directory) = 0;
  virtual void make_directories(const std::string& path) = 0;  // mkdir -p
  // rename(2): atomic; replaces an existing file, or an existing empty directory.
  virtual void rename(const std::string& from, const std::string& to) = 0;
  virtual void remove_all(const std::string& path) = 0;  // rm -rf; a missing path is success
  virtual void sync_directory(const std::string& path) = 0;
  virtual int64_t free_bytes(const std::string& path) = 0;
};

// The machine's own file system. One instance, never destroyed.
FileSystem& real_file_system();

// create + append + sync + close + rename over `path` + sync of the parent: readers see the old file or the new one.
void write_file_atomically(FileSystem& fs, const std::string& path, std::string_view bytes);

}  // namespace gputrain

#pragma once
// A data file opened for reading, with errors that say which file and what it looks like.
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "sys/fd.h"
#include "util/error.h"

namespace gputrain {

// Thread-safe once opened and prepared.
class DataFile {
 public:
  // Error(kData) for a missing file (with the names nearby that were perhaps meant), a directory, no permission. `role`
  // is the spec's place, e.g. "data.train.images", for messages.
  DataFile(std::string path, std::string role);

  const std::string& path() const { return path_; }
  const std::string& role() const { return role_; }
  int64_t size() const { return size_; }

  // Up to out.size() bytes from `offset`; fewer only at the end of the file.
  size_t read_some(int64_t offset, std::span<char> out) const;
  // Exactly out.size() bytes; Error(kData) when the file has become shorter.
  void read_at(int64_t offset, std::span<char> out) const;
  // Prepares for many small reads at random places: maps a file of up to 1 GiB (0.3 us a read of 3 KiB against pread's
  // 1.3, measured); of a larger one, whose page tables would grow, tells the kernel not to read ahead many times what
  // is used.
  void expect_scattered_reads();
  // Error(kData) when the file has become shorter than it was: a mapped one must not be read then (SIGBUS).
  void check_size() const;

  // "data.train.images is an HTML page" at this path.
  Error error(const std::string& what, const std::string& hint = "") const;

 private:
  [[noreturn]] void shrunk(int64_t end) const;

  std::string path_;
  std::string role_;
  UniqueFd fd_;
  int64_t size_ = 0;
  std::unique_ptr<const char, std::function<void(const char*)>> map_;
};

bool is_gzip(std::string_view head);

}  // namespace gputrain

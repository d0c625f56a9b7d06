#pragma once
// A data file opened for reading, with errors that say which file and what it looks like.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "sys/fd.h"
#include "util/error.h"

namespace gputrain {

// Thread-safe once opened (pread only): a file that is cut or fails while a run reads it is an Error, where a memory
// map would be SIGBUS.
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
  // Tells the kernel that reads will be scattered, when the file is too large for it to be cached whole soon anyway.
  void expect_scattered_reads() const;

  // "data.train.images is an HTML page" at this path.
  Error error(const std::string& what, const std::string& hint = "") const;

 private:
  std::string path_;
  std::string role_;
  UniqueFd fd_;
  int64_t size_ = 0;
};

// What a file's first bytes (up to 512) look like, as the end of a sentence: "is empty", "is an HTML page (it begins
// with ...)".
std::string looks_like(std::string_view head);
bool is_gzip(std::string_view head);

}  // namespace gputrain

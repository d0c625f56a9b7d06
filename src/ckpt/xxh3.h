#pragma once
// Streaming XXH3-64 (seed 0) over libxxhash, and the hash of a whole file.
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "sys/fs.h"

namespace gputrain {

// Not thread-safe.
class Xxh3 {
 public:
  Xxh3();
  void update(std::span<const char> bytes);
  // 16 lower-case hex digits of what was added so far.
  std::string hex() const;

 private:
  struct Free {
    void operator()(void* state) const;
  };
  std::unique_ptr<void, Free> state_;
};

std::string xxh3_hex(std::string_view bytes);
// Reads the file piecewise; the memory it needs does not depend on the file's size.
std::string xxh3_of_file(FileSystem& fs, const std::string& path);

}  // namespace gputrain

#pragma once
// The content of a data file from its start to its end, unpacked when it is gzip (known by its first two bytes,
// whatever its name).
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <zlib.h>

#include "data/data_file.h"

namespace gputrain {

// Not thread-safe. Holds 64 KiB. Errors (kData): a cut or damaged gzip member, bytes after the last member that are not
// zeros.
class ByteStream {
 public:
  explicit ByteStream(const DataFile& file);
  ~ByteStream();
  ByteStream(const ByteStream&) = delete;
  ByteStream& operator=(const ByteStream&) = delete;

  // Fewer than out.size() bytes only at the end.
  size_t read(std::span<char> out);
  bool compressed() const { return compressed_; }
  // No content can be longer than this (a deflate stream grows at most 1032 times): what a header claims can be judged
  // before memory is taken for it.
  int64_t size_limit() const;
  // How long the content should be, once known: for the message about cut data.
  void expect(int64_t bytes) { expected_ = bytes; }

 private:
  bool refill();             // false at the end of the file
  bool start_next_member();  // false at the end of the content
  size_t inflate_some(std::span<char> out);
  [[noreturn]] void damaged(const std::string& how) const;

  const DataFile& file_;
  bool compressed_ = false;
  bool at_end_ = false;
  int64_t position_ = 0;  // of the file, behind what is in input_
  int64_t produced_ = 0;  // bytes of content so far
  int64_t expected_ = 0;  // 0 = not known
  std::vector<char> input_;
  z_stream zlib_{};
};

}  // namespace gputrain

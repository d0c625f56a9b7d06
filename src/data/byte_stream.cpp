#include "data/byte_stream.h"

#include <algorithm>

namespace gputrain {
namespace {

constexpr size_t kChunk = 64 << 10;
constexpr int kGzipOnly = 16 + MAX_WBITS;

}  // namespace

ByteStream::ByteStream(const DataFile& file) : file_(file) {
  char magic[2];
  compressed_ = is_gzip({magic, file.read_some(0, magic)});
  if (!compressed_) return;
  input_.resize(kChunk);
  if (inflateInit2(&zlib_, kGzipOnly) != Z_OK) throw Error(ErrorKind::kOutOfMemory, "zlib cannot start", file.path());
}

ByteStream::~ByteStream() {
  if (compressed_) inflateEnd(&zlib_);
}

int64_t ByteStream::size_limit() const {
  return compressed_ ? file_.size() * 1032 + 1032 : file_.size();
}

void ByteStream::damaged(const std::string& how) const {
  throw file_.error("is damaged: " + how, "fetch the file again, and compare its size or checksum with the original's");
}

bool ByteStream::refill() {
  const size_t got = file_.read_some(position_, input_);
  position_ += static_cast<int64_t>(got);
  zlib_.next_in = reinterpret_cast<Bytef*>(input_.data());
  zlib_.avail_in = static_cast<uInt>(got);
  return got > 0;
}

// Between members: zeros are padding (tapes, block devices), another magic is another member (files joined with cat),
// as gzip(1) has it.
bool ByteStream::start_next_member() {
  while (zlib_.avail_in > 0 || refill()) {
    if (*zlib_.next_in != 0) break;
    ++zlib_.next_in;
    --zlib_.avail_in;
  }
  if (zlib_.avail_in == 0) return false;
  if (*zlib_.next_in != 0x1f) {
    damaged("after the gzip data, at byte " + std::to_string(position_ - zlib_.avail_in) + " of " +
            std::to_string(file_.size()) + ", come bytes that are not gzip");
  }
  if (inflateReset(&zlib_) != Z_OK) damaged("zlib cannot continue");
  return true;
}

size_t ByteStream::inflate_some(std::span<char> out) {
  zlib_.next_out = reinterpret_cast<Bytef*>(out.data());
  zlib_.avail_out = static_cast<uInt>(std::min(out.size(), size_t{1} << 30));
  const size_t room = zlib_.avail_out;
  while (zlib_.avail_out == room && !at_end_) {
    if (zlib_.avail_in == 0 && !refill()) {
      damaged("the gzip data is cut: the file ends after " + std::to_string(file_.size()) + " bytes, which give " +
              std::to_string(produced_) + (expected_ > 0 ? " of " + std::to_string(expected_) : "") +
              " unpacked bytes");
    }
    const int status = inflate(&zlib_, Z_NO_FLUSH);
    if (status == Z_STREAM_END) {
      at_end_ = !start_next_member();
    } else if (status == Z_MEM_ERROR) {
      throw Error(ErrorKind::kOutOfMemory, "zlib has no memory", file_.path());
    } else if (status != Z_OK && status != Z_BUF_ERROR) {
      damaged("it begins like gzip but cannot be unpacked after " + std::to_string(produced_) +
              " bytes: " + (zlib_.msg ? zlib_.msg : "not a gzip stream"));
    }
  }
  return room - zlib_.avail_out;
}

size_t ByteStream::read(std::span<char> out) {
  size_t done = 0;
  if (!compressed_) {
    done = file_.read_some(position_, out);
    position_ += static_cast<int64_t>(done);
  }
  while (compressed_ && !at_end_ && done < out.size()) {
    const size_t got = inflate_some(out.subspan(done));
    done += got;
    produced_ += static_cast<int64_t>(got);
  }
  return done;
}

}  // namespace gputrain

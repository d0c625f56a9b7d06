#include "data/data_file.h"

#include <array>
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

struct Signature {
  std::string_view bytes;
  const char* what;
};

using namespace std::string_view_literals;
constexpr std::array kSignatures{Signature{"\x1f\x8b"sv, "is gzip data"},
                                 Signature{"PK\x03\x04"sv, "is a zip archive (.zip, .npz and .pt files are)"},
                                 Signature{"\x93NUMPY"sv, "is a NumPy .npy file"},
                                 Signature{"\xfd\x37zXZ"sv, "is xz data"},
                                 Signature{"BZh"sv, "is bzip2 data"},
                                 Signature{"\x28\xb5\x2f\xfd"sv, "is zstd data"},
                                 Signature{"\x89PNG"sv, "is a PNG image"},
                                 Signature{"\xff\xd8\xff"sv, "is a JPEG image"},
                                 Signature{"\x89HDF"sv, "is an HDF5 file"},
                                 Signature{"version https://git-lfs"sv, "is a Git LFS pointer, not the file itself"}};

std::string begins_with(std::string_view head) {
  return " (it begins with \"" + printable(head.substr(0, std::min(head.find_first_of("\r\n"), size_t{40}))) + "\")";
}

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
  return lower;
}

bool is_text(std::string_view head) {
  for (const char c : head) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < 0x20 && c != '\n' && c != '\r' && c != '\t') || byte == 0x7f) return false;
  }
  return true;
}

std::string hex_bytes(std::string_view head) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const char c : head.substr(0, 8)) {
    const auto byte = static_cast<unsigned char>(c);
    text += {' ', kDigits[byte >> 4], kDigits[byte & 15]};
  }
  return text;
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

std::string looks_like(std::string_view head) {
  if (head.empty()) return "is empty";
  for (const auto& [bytes, what] : kSignatures) {
    if (head.starts_with(bytes)) return what;
  }
  // A pickle: PROTO 2 to 5, then most often a frame, a dict, a list or a global.
  if (head.size() >= 2 && head[0] == '\x80' && head[1] >= 2 && head[1] <= 5) return "is a Python pickle";
  std::string_view text = head.starts_with("\xef\xbb\xbf") ? head.substr(3) : head;
  text = trim(text);
  const std::string lower = lower_case(text.substr(0, 16));
  for (const char* tag : {"<!doctype html", "<html", "<head", "<body"}) {
    if (lower.starts_with(tag)) return "is an HTML page" + begins_with(text);
  }
  if (lower.starts_with("<?xml")) return "is an XML or HTML page" + begins_with(text);
  if (head.size() >= 262 && head.substr(257, 5) == "ustar") return "is a tar archive";
  if (!text.empty() && is_text(head)) return "is text" + begins_with(text);
  return "is binary data that begins with the bytes" + hex_bytes(head);
}

}  // namespace gputrain

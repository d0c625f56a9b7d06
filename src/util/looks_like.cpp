#include "util/looks_like.h"

#include <algorithm>
#include <array>

#include "util/text.h"

namespace gputrain {
namespace {

struct Signature {
  std::string_view bytes;
  const char* what;
};

using namespace std::string_view_literals;
constexpr std::array kSignatures{Signature{"\x1f\x8b"sv, "is gzip data"},
                                 Signature{"PK\x03\x04"sv, "is a zip archive (.zip, .npz and .pt files are)"},
                                 Signature{"\177ELF"sv, "is an ELF file (a program or library)"},
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

std::string looks_like(std::string_view head) {
  if (head.empty()) return "is empty";
  for (const auto& [bytes, what] : kSignatures) {
    if (head.starts_with(bytes)) return what;
  }
  // A pickle: PROTO 2 to 5, then most often a frame, a dict, a list or a global.
  if (head.size() >= 2 && head[0] == '\x80' && head[1] >= 2 && head[1] <= 5) return "is a Python pickle";
  // Eight bytes of header length, then JSON.
  if (head.size() > 9 && head.substr(6, 2) == "\0\0"sv && head[8] == '{') return "is a safetensors file";
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

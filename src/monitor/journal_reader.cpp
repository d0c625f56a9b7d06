#include "monitor/journal_reader.h"

#include <algorithm>
#include <utility>

namespace gputrain {
namespace {

constexpr int64_t kHead = int64_t{64} << 10;
constexpr int64_t kPiece = int64_t{1} << 20;

}  // namespace

std::string first_line(FileSystem& fs, const std::string& path) {
  if (!fs.exists(path)) return "";
  std::string text(static_cast<size_t>(std::min(fs.size(path), kHead)), '\0');
  fs.read_at(path, 0, text);
  return text.substr(0, std::min(text.find('\n'), text.size()));
}

void read_tail(FileSystem& fs, const std::string& path, const std::function<void(std::string_view)>& take,
               int64_t tail) {
  if (!fs.exists(path)) return;
  const int64_t size = fs.size(path);
  int64_t at = std::max<int64_t>(0, size - tail);
  bool cut = at > 0;
  std::string pending;  // begins with a line
  while (at < size) {
    const size_t kept = pending.size();
    const int64_t length = std::min(kPiece, size - at);
    pending.resize(kept + static_cast<size_t>(length));
    fs.read_at(path, at, std::span(pending).subspan(kept));
    at += length;
    size_t begin = 0;
    for (size_t end; (end = pending.find('\n', std::max(begin, kept))) != std::string::npos; begin = end + 1) {
      if (!std::exchange(cut, false)) take(std::string_view(pending).substr(begin, end - begin));
    }
    pending.erase(0, begin);
  }
  if (!cut && !pending.empty()) take(pending);
}

}  // namespace gputrain

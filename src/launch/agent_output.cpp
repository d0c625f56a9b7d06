#include "launch/agent_output.h"

#include <algorithm>
#include <cerrno>

#include <fcntl.h>

#include "sys/files.h"
#include "sys/fs.h"
#include "util/error.h"
#include "util/text.h"

namespace gputrain {
namespace {

constexpr size_t kHeldHead = 512 << 10, kHeldRecent = 512 << 10;
constexpr size_t kTailLines = 40, kTailLineBytes = 400;

std::string notice(int64_t bytes, const std::string& why) {
  return "[gputrain: " + std::to_string(bytes) + " bytes of output dropped: " + why + "]";
}

}  // namespace

void RankOutput::append(std::string_view bytes) {
  follow_lines(bytes);
  if (path_.empty()) {
    hold(bytes);
  } else {
    write_out(bytes);
  }
}

void RankOutput::hold(std::string_view bytes) {
  const auto first = bytes.substr(0, kHeldHead - std::min(kHeldHead, head_.size()));
  head_ += first;
  recent_ += bytes.substr(first.size());
  if (recent_.size() <= 2 * kHeldRecent) return;  // cut seldom: each byte is moved once on average
  const size_t excess = recent_.size() - kHeldRecent;
  recent_.erase(0, excess);
  held_dropped_ += static_cast<int64_t>(excess);
}

void RankOutput::open(const std::string& path) {
  if (!path_.empty()) return;
  path_ = path;
  try {
    real_file_system().make_directories(path.substr(0, path.rfind('/')));
    file_ = open_file(path, O_WRONLY | O_CREAT | O_APPEND, 0666);
    if (!file_) problem_ = errno_text(errno);
  } catch (const Error& error) {
    problem_ = error.render();
  }
  write_out(head_);
  if (held_dropped_ > 0) write_out("\n" + notice(held_dropped_, "more than was kept before the start") + "\n");
  write_out(recent_);
  head_ = recent_ = std::string();
}

void RankOutput::write_out(std::string_view bytes) {
  if (dropped_since_notice_ > 0 && write("\n" + notice(dropped_since_notice_, problem_) + "\n") == 0) {
    dropped_since_notice_ = 0;
  }
  const auto left = static_cast<int64_t>(dropped_since_notice_ > 0 ? bytes.size() : write(bytes));
  dropped_ += left;
  dropped_since_notice_ += left;
}

// The number of bytes that could not be written.
size_t RankOutput::write(std::string_view bytes) {
  if (!file_) return bytes.size();
  const size_t written = write_all(file_.get(), bytes);
  if (written < bytes.size()) problem_ = errno_text(errno);
  return bytes.size() - written;
}

// A carriage return starts the line anew, as on a terminal (progress bars), unless it is half of a line end.
void RankOutput::follow_lines(std::string_view bytes) {
  for (const char c : bytes) {
    if (c == '\n') {
      end_line();
    } else if (c == '\r') {
      carriage_return_ = true;
    } else {
      if (carriage_return_) line_.clear();
      carriage_return_ = false;
      if (line_.size() < kTailLineBytes) line_.push_back(c);
    }
  }
}

void RankOutput::end_line() {
  lines_.push_back(std::move(line_));
  line_.clear();
  carriage_return_ = false;
  if (lines_.size() > kTailLines) lines_.pop_front();
}

std::string RankOutput::tail() const {
  std::string text;
  const size_t skipped = lines_.size() == kTailLines && !line_.empty() ? 1 : 0;
  for (size_t i = skipped; i < lines_.size(); ++i) text += printable(lines_[i]) + "\n";
  if (!line_.empty()) text += printable(line_) + "\n";
  if (dropped_ > 0) text += notice(dropped_, problem_) + "\n";
  return text;
}

}  // namespace gputrain

#include "monitor/journal.h"

#include <cerrno>
#include <cstdio>

#include <fcntl.h>
#include <unistd.h>

#include "monitor/record.h"
#include "sys/files.h"
#include "util/error.h"
#include "util/foreign_json.h"
#include "util/text.h"

namespace gputrain {
namespace {

[[noreturn]] void fail(const std::string& what, const std::string& path) {
  const int error_number = errno;
  throw Error(
      ErrorKind::kOutput, "cannot " + what + " " + path + ": " + errno_text(error_number), "",
      error_number == ENOSPC ? "free some space and launch again: the run continues from its last checkpoint" : "");
}

bool ends_in_torn_line(int fd) {
  const off_t size = ::lseek(fd, 0, SEEK_END);
  char last = '\n';
  return size > 0 && ::pread(fd, &last, 1, size - 1) == 1 && last != '\n';
}

// Whether spliced text keeps a line of JSON a line: an object with a member, no control characters.
bool can_splice(std::string_view record) {
  if (record.size() < 5 || record.front() != '{' || record.back() != '}') return false;
  if (record[1] != '"') return false;  // "{}" has no member to put a comma before
  for (const char c : record) {
    if (static_cast<unsigned char>(c) < 0x20) return false;
  }
  return true;
}

}  // namespace

std::string record_kind(std::string_view text) {
  constexpr std::string_view kFirst = "{\"kind\":\"";
  if (text.substr(0, kFirst.size()) == kFirst) {
    const std::string_view rest = text.substr(kFirst.size());
    const size_t end = rest.find('"');
    if (end != std::string_view::npos && rest.substr(0, end).find('\\') == std::string_view::npos) {
      return std::string(rest.substr(0, end));
    }
  }
  const Json json = parse_foreign_json(text);
  if (!json.is_object() || !json.contains("kind") || !json["kind"].is_string()) return "";
  return json["kind"].get<std::string>();
}

Journal::Journal(std::string path, Clock& clock, MonotonicTime start)
    : path_(std::move(path)), clock_(clock), start_(start) {
  file_ = open_file(path_, O_RDWR | O_CREAT | O_APPEND);
  if (!file_) fail("open", path_);
  torn_ = ends_in_torn_line(file_.get());
  if (torn_) write("\n");
}

void Journal::write(std::string_view bytes) {
  const size_t written = write_all(file_.get(), bytes);
  if (written > 0) torn_ = bytes[written - 1] != '\n';
  if (written < bytes.size()) fail("write", path_);
}

std::string Journal::append_text(std::string_view record, int attempt) {
  if (!can_splice(record)) {
    return append(
        warning_record("a rank sent a record that is not one line of JSON: " + printable(record.substr(0, 200))),
        attempt);
  }
  char head[96];
  std::snprintf(head, sizeof head, "\",\"mono_s\":%.6f,\"attempt\":%d,", seconds_between(start_, clock_.now()),
                attempt);
  std::string line = "{\"ts\":\"" + utc_timestamp(clock_.unix_micros()) + head;
  line.append(record.substr(1));
  line += '\n';
  if (torn_) write("\n");
  write(line);
  line.pop_back();
  return line;
}

std::string Journal::append(const Json& record, int attempt) {
  return append_text(dump_line(record), attempt);
}

void Journal::sync() {
  while (::fdatasync(file_.get()) != 0) {
    if (errno != EINTR) fail("write", path_);
  }
}

}  // namespace gputrain

#pragma once
// events.jsonl: the one record of what happened, appended line by line. Everything that is shown is derived from it.
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "sys/clock.h"
#include "sys/fd.h"
#include "util/json.h"

namespace gputrain {

// The "kind" of a record's JSON text ("step"): read from its first member, or by parsing when it stands elsewhere. ""
// when the text is no JSON object with a kind.
std::string record_kind(std::string_view text);

// Appends to one file. Not thread-safe but for sync(), which may run beside append(). A full disk must stop a run that
// cannot tell what it did, so unlike a Sink it throws: Error(kOutput) from every method. The record after one that was
// written in part begins on a line of its own.
class Journal {
 public:
  // Opens or creates the file. A last line without its newline (the writer was killed) is closed with one, so that the
  // next record stands on a line of its own. mono_s counts from `start`, the launch of this controller.
  Journal(std::string path, Clock& clock, MonotonicTime start);

  // Appends {"ts","mono_s","attempt", then the members of `record`} and returns that line without its newline. `record`
  // is the text of one JSON object as a worker sent it, spliced in without parsing; text that cannot be one (no braces,
  // a line break inside) is wrapped into a warning record instead, so that the file stays readable whatever a worker
  // does.
  std::string append_text(std::string_view record, int attempt);
  std::string append(const Json& record, int attempt);

  // What was appended survives a power loss. May take seconds on a busy disk.
  void sync();

  const std::string& path() const { return path_; }

 private:
  void write(std::string_view bytes);

  std::string path_;
  Clock& clock_;
  MonotonicTime start_;
  UniqueFd file_;
  bool torn_ = false;  // the file ends within a line
};

}  // namespace gputrain

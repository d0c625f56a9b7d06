#pragma once
#include <string>

#include "util/json.h"

namespace gputrain {

// Receives every record of a run, in order, on the controller's thread. Sinks never throw: a full disk or a closed
// terminal must not stop training (events.jsonl, which must, is not a Sink but the controller's own journal).
class Sink {
 public:
  virtual ~Sink() = default;
  // One record with ts, mono_s, attempt, kind. `line` is its JSON text without the newline; parse it only when needed.
  virtual void record(const std::string& kind, const std::string& line) = 0;
  // A line for people ("rank 3 on gpu-1 was killed by SIGKILL; restarting from step 1200").
  virtual void notice(const std::string& text) = 0;
  // Called about ten times a second: redraw, flush.
  virtual void tick() {}
  virtual void close() {}
};

}  // namespace gputrain

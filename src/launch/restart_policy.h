#pragma once
// Whether a failed attempt is tried again, and the exit code when it is not (design section 4). Pure.
#include <cstdint>
#include <string>
#include <vector>

#include "launch/verdict.h"

namespace gputrain {

// Failures since the last new checkpoint step: carried over from the previous launch by read_history().
struct FailureRow {
  int64_t newest_checkpoint = -1;   // -1: none yet
  std::vector<std::string> causes;  // Verdict::cause, oldest first
};

struct RestartDecision {
  bool restart = false;
  int restart_number = 0;  // 1 = the first since the last new checkpoint
  int exit_code = 0;       // when not restarted
  bool spent = false;      // retryable, but max_restarts is used up
};

class RestartPolicy {
 public:
  RestartPolicy(int max_restarts, FailureRow row) : max_restarts_(max_restarts), row_(std::move(row)) {}

  // A checkpoint of `step` exists. A step beyond all before is progress: the count starts again.
  void checkpoint(int64_t step);
  RestartDecision failure(const Verdict& verdict);

  int max_restarts() const { return max_restarts_; }
  int failures() const { return static_cast<int>(row_.causes.size()); }

 private:
  int max_restarts_;
  FailureRow row_;
};

}  // namespace gputrain

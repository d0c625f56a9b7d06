#include "launch/restart_policy.h"

#include <algorithm>

#include "util/exit_code.h"

namespace gputrain {

void RestartPolicy::checkpoint(int64_t step) {
  if (step <= row_.newest_checkpoint) return;
  row_.newest_checkpoint = step;
  row_.causes.clear();
}

RestartDecision RestartPolicy::failure(const Verdict& verdict) {
  RestartDecision decision;
  decision.exit_code = verdict.exit_code;
  if (!verdict.retryable) return decision;
  row_.causes.push_back(verdict.cause);
  if (failures() <= max_restarts_) {
    decision.restart = true;
    decision.restart_number = failures();
    return decision;
  }
  decision.spent = max_restarts_ > 0;
  const bool same = std::all_of(row_.causes.begin(), row_.causes.end(),
                                [&](const std::string& cause) { return cause == verdict.cause; });
  if (!same) decision.exit_code = static_cast<int>(ExitCode::kNoProgress);
  return decision;
}

}  // namespace gputrain

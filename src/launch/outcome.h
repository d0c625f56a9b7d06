#pragma once
// What an ended launch means: exit code, result.json and the last words on the screen. Pure.
#include <cstdint>
#include <optional>
#include <string>

#include "launch/controller.h"
#include "launch/restart_policy.h"
#include "launch/supervisor.h"
#include "util/error.h"

namespace gputrain {

struct OutcomeContext {
  std::string run_id, output;
  std::string resume_command;
  int attempt = 0;  // the last one
  int restarts = 0, max_restarts = 0;
  int64_t last_step = 0;    // of the newest step record
  int64_t saved_step = -1;  // of the newest checkpoint, -1 = none
  bool smoke = false;       // a smoke test or an evaluation: nothing is saved or to be continued
};

// `decision` belongs to a failed attempt.
Outcome outcome_of(const AttemptResult& result, const std::optional<RestartDecision>& decision,
                   const OutcomeContext& context);
// The controller's own end: nothing to do with an attempt.
Outcome outcome_of(const Error& error, const OutcomeContext& context);

// As in result.json and the failure event: {host, rank, pid, signal, code, oom_killed}.
Json culprit_json(const Verdict& verdict);
Json error_json(const std::optional<WireError>& error);
// "gputrain: error: where: message (on 2 ranks of 1 host)" and the hint, for each distinct error; or describe().
std::string error_text(const Verdict& verdict);

}  // namespace gputrain

#include "launch/outcome.h"

#include <algorithm>

#include "util/exit_code.h"
#include "util/text.h"

namespace gputrain {
namespace {

constexpr std::string_view kPrefix = "gputrain: error: ";

int code(ExitCode value) {
  return static_cast<int>(value);
}

// A stop that a failure spoiled: a full disk or a broken checkpoint is told as what it is; a process that did not
// survive long enough is what stops are like.
bool failure_counts(const AttemptResult& result) {
  return result.verdict && !result.verdict->retryable && !result.saved;
}

int stop_code(const AttemptResult& result) {
  if (failure_counts(result)) return result.verdict->exit_code;
  switch (result.reason) {
    case StopReason::kUserStop:
      return code(ExitCode::kStopped);
    case StopReason::kInterrupted:
      return code(ExitCode::kInterrupted);
    case StopReason::kMaxDuration:
      return code(ExitCode::kHang);
    case StopReason::kNone:
    case StopReason::kPreempted:
      break;
  }
  return code(result.saved ? ExitCode::kPreempted : ExitCode::kPreemptedUnsaved);
}

std::string word_of(int exit_code) {
  if (const auto row = find_exit_code(exit_code)) return std::string(row->word);
  return exit_code > 128 ? "signal" : "failed";
}

Outcome blank(int exit_code, const OutcomeContext& context) {
  const auto row = find_exit_code(exit_code);
  Outcome outcome;
  outcome.exit_code = exit_code;
  outcome.result = {{"outcome", word_of(exit_code)},
                    {"exit_code", exit_code},
                    {"resumable", row && row->resumable},
                    {"run_id", context.run_id},
                    {"output", context.output},
                    {"attempt", context.attempt},
                    {"restarts", context.restarts},
                    {"max_restarts", context.max_restarts},
                    {"step", context.last_step},
                    {"saved_step", context.saved_step},
                    {"culprit", nullptr},
                    {"error", nullptr}};
  return outcome;
}

std::string resume_text(const OutcomeContext& context) {
  return context.smoke ? "" : "continue with: " + context.resume_command + "\n";
}

std::string saved_text(const OutcomeContext& context) {
  return context.saved_step < 0 ? "no checkpoint yet" : "last checkpoint at step " + std::to_string(context.saved_step);
}

std::string final_text(const Json& final) {
  std::string text;
  if (!final.is_object()) return text;
  for (const auto& [name, value] : final.items()) {
    text += ", " + name + " " + (value.is_number_float() ? format_number(value.get<double>()) : dump_line(value));
  }
  return text;
}

std::string one_error(const WireError& error, const std::string& suffix) {
  const Error shown(error.kind, error.message + suffix, error.where, error.hint);
  return std::string(kPrefix) + shown.render() + "\n";
}

std::string log_text(const Verdict& verdict) {
  // A typed error says what its log says, but for our own faults.
  const bool told = verdict.error && verdict.error->kind != ErrorKind::kInternal && verdict.exit_code < 126;
  if (verdict.log_tail.empty() || told) return "";
  std::string text = "last lines of " + (verdict.log_path.empty() ? "its output" : verdict.log_path) + ":\n";
  for (const auto& line : split(trim(verdict.log_tail), '\n')) text += "  | " + printable(line) + "\n";
  return text;
}

std::string unkillable_text(const AttemptResult& result) {
  if (result.unkillable.empty()) return "";
  std::vector<std::string> pids;
  pids.reserve(result.unkillable.size());
  for (const int pid : result.unkillable) pids.push_back(std::to_string(pid));
  return "still there after SIGKILL (waiting for a device or a disk?): pid " + join_words(pids) + "\n";
}

std::string stop_text(const AttemptResult& result, const OutcomeContext& context) {
  std::string text = result.reason == StopReason::kUserStop      ? "stopped"
                     : result.reason == StopReason::kInterrupted ? "interrupted"
                     : result.reason == StopReason::kMaxDuration ? "stopped at launch.max_duration"
                                                                 : "preempted";
  if (context.smoke) return text + "\n";
  if (!result.saved) return text + ": not saved, " + saved_text(context) + "\n";
  if (!result.went || result.step == 0) return text + ": nothing new to save, " + saved_text(context) + "\n";
  return text + ": saved at step " + std::to_string(result.step) + "\n";
}

void add_failure(Outcome& outcome, const Verdict& verdict) {
  outcome.result["culprit"] = culprit_json(verdict);
  outcome.result["error"] = error_json(verdict.error);
  outcome.result["class"] = to_string(verdict.failure_class);
  outcome.result["phase"] = verdict.progress.phase;
  outcome.result["victims"] = verdict.victims;
}

std::string failure_text(const AttemptResult& result, const RestartDecision& decision, const OutcomeContext& context) {
  const Verdict& verdict = *result.verdict;
  std::string text = error_text(verdict) + log_text(verdict) + unkillable_text(result);
  text += "failed with exit code " + std::to_string(decision.exit_code);
  if (decision.spent) {
    text += ": " + plural(context.max_restarts, "restart") + " used since the last new checkpoint";
    if (decision.exit_code == code(ExitCode::kNoProgress)) text += ", for different causes";
  }
  if (result.went && verdict.victims > 0) text += "; " + plural(verdict.victims, "other rank") + " ended with it";
  if (context.last_step > 0 || context.saved_step >= 0) text += "; " + saved_text(context);
  return text + "\n";
}

}  // namespace

Json culprit_json(const Verdict& verdict) {
  return {{"host", verdict.host}, {"rank", verdict.rank},
          {"pid", verdict.pid},   {"signal", verdict.signal == 0 ? "" : signal_name(verdict.signal)},
          {"code", verdict.code}, {"oom_killed", verdict.oom_killed}};
}

Json error_json(const std::optional<WireError>& error) {
  if (!error) return nullptr;
  return {
      {"kind", error_word(error->kind)}, {"message", error->message}, {"where", error->where}, {"hint", error->hint}};
}

std::string error_text(const Verdict& verdict) {
  const bool typed = verdict.failure_class == FailureClass::kError && verdict.error;
  std::string text;
  if (typed) {
    const std::string suffix = verdict.same_ranks < 2 ? ""
                                                      : " (on " + plural(verdict.same_ranks, "rank") + " of " +
                                                            plural(verdict.same_hosts, "host") + ")";
    text = one_error(*verdict.error, suffix);
  } else {
    text = std::string(kPrefix) + describe(verdict) + "\n";
    if (verdict.error) text += "  " + verdict.error->message + "\n";
  }
  for (const auto& other : verdict.others) text += one_error(other, "");
  return text;
}

Outcome outcome_of(const AttemptResult& result, const std::optional<RestartDecision>& decision,
                   const OutcomeContext& context) {
  using Kind = AttemptResult::Kind;
  if (result.kind == Kind::kFailed) {
    Outcome outcome = blank(decision->exit_code, context);
    add_failure(outcome, *result.verdict);
    outcome.summary = failure_text(result, *decision, context);
    // The table says what to requeue; people may always go on from a checkpoint once the cause is gone.
    if (context.saved_step >= 0) outcome.summary += resume_text(context);
    return outcome;
  }
  const bool stopped = result.kind == Kind::kStopped;
  Outcome outcome = blank(stopped ? stop_code(result) : code(ExitCode::kDone), context);
  outcome.result["step"] = std::max(result.step, context.last_step);
  const std::string early = result.stopped_early.empty() ? "" : "; " + result.stopped_early;
  if (!early.empty()) outcome.result["stopped_early"] = result.stopped_early;
  if (result.kind == Kind::kAlreadyComplete) {
    outcome.result["already_complete"] = true;
    outcome.summary = "already complete at step " + std::to_string(result.step) + early + "\n";
  } else if (stopped) {
    outcome.result["reason"] = to_string(result.reason);
    outcome.result["saved"] = result.saved;
    if (result.verdict) add_failure(outcome, *result.verdict);
    const bool failed = failure_counts(result);
    outcome.summary = (failed ? error_text(*result.verdict) + log_text(*result.verdict) : "") +
                      unkillable_text(result) + stop_text(result, context) + resume_text(context);
  } else {
    outcome.result["final"] = result.final;
    outcome.summary = "done: " + plural(result.step, "step") + final_text(result.final) + early +
                      (context.smoke ? "" : "; output " + context.output) + "\n";
  }
  return outcome;
}

Outcome outcome_of(const Error& error, const OutcomeContext& context) {
  Outcome outcome = blank(static_cast<int>(exit_code(error.kind)), context);
  const WireError wire{error.kind, error.message, error.where, error.hint};
  outcome.result["error"] = error_json(wire);
  outcome.summary = one_error(wire, "");
  return outcome;
}

}  // namespace gputrain

#include "launch/verdict.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <set>

#include "util/exit_code.h"

namespace gputrain {
namespace {

constexpr int kNotFoundStatus = static_cast<int>(ExitCode::kNotFound);
constexpr int kCannotExecuteStatus = static_cast<int>(ExitCode::kCannotExecute);
constexpr int kInternalStatus = static_cast<int>(ExitCode::kInternal);

// The typed error that an untyped ending amounts to, if it has a meaning of its own.
std::optional<WireError> implied_error(const FailureReport& report) {
  if (!report.exited) return std::nullopt;
  const RankExited& exited = *report.exited;
  if (exited.exec_errno != 0) {
    return WireError{exited.exec_errno == ENOENT ? ErrorKind::kNotFound : ErrorKind::kCannotExecute,
                     "the worker cannot be executed: " + errno_text(exited.exec_errno), report.host,
                     "check the installation: gputrain-worker belongs beside gputrain"};
  }
  if (exited.signal != 0 || exited.killed_by_us) return std::nullopt;
  if (exited.code == 0) {
    return WireError{ErrorKind::kInternal, "a rank exited 0 before its release", report.host, ""};
  }
  if (exited.code == kInternalStatus) {
    return WireError{ErrorKind::kInternal, "a rank ended with an internal error", report.host, ""};
  }
  // The dynamic linker's and a shell's codes: the program never ran.
  if (report.before_ready && (exited.code == kNotFoundStatus || exited.code == kCannotExecuteStatus)) {
    return WireError{exited.code == kNotFoundStatus ? ErrorKind::kNotFound : ErrorKind::kCannotExecute,
                     "the worker did not start (exit " + std::to_string(exited.code) + ")", report.host,
                     "see the log below: probably a shared library is missing"};
  }
  return std::nullopt;
}

std::optional<WireError> typed_error(const FailureReport& report) {
  return report.error ? report.error : implied_error(report);
}

// Which codes of a rank pass through (exit_code.h): 1-63 but the command line's own 2.
int pass_through(int code) {
  return code >= 1 && code <= 63 && code != static_cast<int>(ExitCode::kUsage) ? code : 1;
}

bool same_error(const WireError& a, const WireError& b) {
  return a.kind == b.kind && a.message == b.message && a.where == b.where && a.hint == b.hint;
}

// Fills in exit code, retryable and cause.
void rule(Verdict& verdict) {
  const std::string_view word = to_string(verdict.failure_class);
  verdict.retryable = true;
  switch (verdict.failure_class) {
    case FailureClass::kSignal:
      verdict.exit_code = signal_exit_code(verdict.signal);
      break;
    case FailureClass::kHostLost:
      verdict.exit_code = static_cast<int>(ExitCode::kEnvironment);
      break;
    case FailureClass::kError:
    case FailureClass::kPeerLost:
      verdict.exit_code = static_cast<int>(exit_code(verdict.error->kind));
      verdict.retryable = is_retryable(verdict.error->kind);
      break;
    case FailureClass::kExit:
      verdict.exit_code = pass_through(verdict.code);
      break;
    case FailureClass::kHang:
      verdict.exit_code = static_cast<int>(ExitCode::kHang);
      break;
  }
  verdict.cause = std::string(word);
  if (verdict.failure_class == FailureClass::kSignal) verdict.cause += "/" + signal_name(verdict.signal);
  if (verdict.failure_class == FailureClass::kExit) verdict.cause += "/" + std::to_string(verdict.code);
  if (verdict.failure_class == FailureClass::kError)
    verdict.cause += "/" + std::string(error_word(verdict.error->kind));
}

// Ranks with the culprit's very error, and the distinct other errors.
void gather_errors(Verdict& verdict, const FailureReport& culprit, const std::vector<FailureReport>& reports) {
  std::set<std::string> hosts{culprit.host};
  for (const auto& report : reports) {
    const auto error = typed_error(report);
    if (&report == &culprit || !error || error->kind == ErrorKind::kPeerLost) continue;
    if (verdict.error && same_error(*error, *verdict.error)) {
      ++verdict.same_ranks;
      hosts.insert(report.host);
    } else if (std::none_of(verdict.others.begin(), verdict.others.end(),
                            [&](const WireError& other) { return same_error(other, *error); })) {
      verdict.others.push_back(*error);
    }
  }
  verdict.same_hosts = static_cast<int>(hosts.size());
}

bool is_abort(const FailureReport& report) {
  return classify(report) == FailureClass::kSignal && report.exited->signal == SIGABRT;
}

// How much a report is to blame: the order of FailureClass, with two refinements. A signal and a lost host are equals:
// what was seen first came first. An abort after another rank's failure is Gloo's or NCCL's answer to the lost peer,
// not a cause.
FailureClass blame(const FailureReport& report, const std::vector<FailureReport>& reports) {
  const FailureClass its_class = *classify(report);
  if (its_class == FailureClass::kHostLost) return FailureClass::kSignal;
  if (!is_abort(report)) return its_class;
  const bool answers = std::any_of(reports.begin(), reports.end(), [&](const FailureReport& other) {
    const auto other_class = classify(other);
    return &other != &report && other_class && *other_class <= FailureClass::kError && !is_abort(other) &&
           other.at <= report.at;
  });
  return answers ? FailureClass::kPeerLost : its_class;
}

std::string who(const Verdict& verdict) {
  if (verdict.failure_class == FailureClass::kHostLost) return "the agent on " + verdict.host;
  if (verdict.rank < 0) return "gputrain";
  std::string text = "rank " + std::to_string(verdict.rank);
  if (verdict.pid > 0) text += " (pid " + std::to_string(verdict.pid) + ")";
  return text + " on " + verdict.host;
}

}  // namespace

std::string_view to_string(FailureClass failure_class) {
  switch (failure_class) {
    case FailureClass::kSignal:
      return "signal";
    case FailureClass::kHostLost:
      return "host_lost";
    case FailureClass::kError:
      return "error";
    case FailureClass::kExit:
      return "exit";
    case FailureClass::kHang:
      return "hang";
    case FailureClass::kPeerLost:
      return "peer_lost";
  }
  return "exit";
}

std::optional<FailureClass> classify(const FailureReport& report) {
  if (report.host_lost) return FailureClass::kHostLost;
  if (report.exited && report.exited->signal != 0 && !report.exited->killed_by_us) return FailureClass::kSignal;
  if (const auto error = typed_error(report)) {
    return error->kind == ErrorKind::kPeerLost ? FailureClass::kPeerLost : FailureClass::kError;
  }
  if (report.exited && !report.exited->killed_by_us) return FailureClass::kExit;
  return std::nullopt;
}

Verdict judge(const std::vector<FailureReport>& reports, int world_size) {
  const FailureReport* culprit = nullptr;
  for (const auto& report : reports) {
    if (!classify(report)) continue;
    if (culprit == nullptr ||
        std::pair(blame(report, reports), report.at) < std::pair(blame(*culprit, reports), culprit->at)) {
      culprit = &report;
    }
  }
  GP_CHECK(culprit != nullptr, "a verdict needs a failure");
  Verdict verdict;
  verdict.failure_class = *classify(*culprit);
  verdict.host = culprit->host;
  verdict.rank = culprit->rank;
  verdict.progress = culprit->progress.value_or(ProgressSnapshot{});
  verdict.error = typed_error(*culprit);
  if (culprit->exited) {
    const RankExited& exited = *culprit->exited;
    verdict.pid = exited.pid;
    // Our own SIGKILL after a typed error is no finding.
    verdict.signal = exited.killed_by_us ? 0 : exited.signal;
    verdict.code = exited.killed_by_us ? 0 : exited.code;
    verdict.oom_killed = exited.oom_killed;
    verdict.log_path = exited.log_path;
    verdict.log_tail = exited.log_tail;
  }
  rule(verdict);
  gather_errors(verdict, *culprit, reports);
  verdict.victims = std::max(0, world_size - verdict.same_ranks);
  return verdict;
}

std::string describe(const Verdict& verdict) {
  std::string text = who(verdict);
  switch (verdict.failure_class) {
    case FailureClass::kSignal:
      text += " was killed by " + signal_name(verdict.signal);
      break;
    case FailureClass::kHostLost:
      text += " was lost";
      break;
    case FailureClass::kHang:
      text += " hung";
      break;
    case FailureClass::kPeerLost:
      text += " lost a peer";
      break;
    case FailureClass::kError:
      text += " failed";
      break;
    case FailureClass::kExit:
      text += " exited with " + std::to_string(verdict.code);
      break;
  }
  if (verdict.oom_killed) text += " (the kernel's out-of-memory killer)";
  if (verdict.progress.step > 0) text += " at step " + std::to_string(verdict.progress.step);
  if (!verdict.progress.phase.empty()) {
    text += verdict.progress.step > 0 ? " (" + verdict.progress.phase + ")" : " during " + verdict.progress.phase;
  }
  return text;
}

}  // namespace gputrain

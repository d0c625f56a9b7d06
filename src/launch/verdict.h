#pragma once
// Who is to blame for a failed attempt, what it costs as an exit code, and whether another try can help (design section
// 3, "Verdict"). Pure: reports in, verdict out.
#include <optional>
#include <string>
#include <vector>

#include "sys/clock.h"
#include "wire/messages.h"

namespace gputrain {

// What is known of one rank (or, with rank = -1, of one lost agent) that did not end as it should.
struct FailureReport {
  int rank = -1;
  std::string host;
  MonotonicTime at{};                // first sign of the failure, when the controller heard of it
  std::optional<WireError> error;    // typed
  std::optional<RankExited> exited;  // how the process ended
  // Of the rank itself, with its first own sign; another rank's report about it has none.
  std::optional<ProgressSnapshot> progress;
  bool host_lost = false;     // the agent is gone or silent
  bool before_ready = false;  // the rank had not reported ready
};

// In the order of blame.
enum class FailureClass { kSignal, kHostLost, kError, kExit, kHang, kPeerLost };
std::string_view to_string(FailureClass);  // "signal", "host_lost", "error", "exit", "hang", "peer_lost"

// nullopt: no failure (the process was killed by us and had reported nothing).
std::optional<FailureClass> classify(const FailureReport& report);

struct Verdict {
  FailureClass failure_class = FailureClass::kExit;
  std::string host;
  int rank = -1;  // -1: a host
  int pid = 0;
  int signal = 0;
  int code = 0;  // the process's true exit status, 0 when a signal ended it
  bool oom_killed = false;
  std::optional<WireError> error;
  ProgressSnapshot progress;
  int exit_code = 1;  // of `gputrain launch`
  bool retryable = false;
  std::string cause;                   // key {class, signal, code}: equal causes have equal keys
  std::vector<WireError> others;       // distinct typed errors of other ranks that name another cause
  int same_ranks = 1, same_hosts = 1;  // ranks and hosts that reported the very same error
  int victims = 0;                     // ranks that ended because of it
  std::string log_path, log_tail;
};

// `reports` holds at least one that classify() accepts; `world_size` gives the number of victims.
Verdict judge(const std::vector<FailureReport>& reports, int world_size);

// "rank 1 (pid 4321) on local was killed by SIGKILL at step 17 (backward)"
std::string describe(const Verdict& verdict);

}  // namespace gputrain

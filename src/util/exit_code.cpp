#include "util/exit_code.h"

#include <cstring>

#include <signal.h>

namespace gputrain {
namespace {

constexpr ExitCodeRow kTable[] = {
    {0, "done", "finished; a finished run launched again is \"already complete\"", false},
    {1, "failed", "a rank failed; result.json holds the reason (any code 1-63 passes the culprit's own through)",
     false},
    {2, "usage", "bad command line", false},
    {64, "spec", "bad YAML or hostfile, unknown model, argument or transform, sizes that contradict each other", false},
    {65, "data", "data missing, malformed or changed", false},
    {69, "environment", "preflight failed, host unreachable or lost for good, more ranks than GPUs", true},
    {70, "internal", "gputrain's own fault", false},
    {73, "output", "output directory unwritable, full, or locked by a live run", false},
    {74, "checkpoint", "a checkpoint cannot be read or written", false},
    {75, "preempted", "preempted, state saved: run the same command again", true},
    {76, "preempted-unsaved", "preempted before a save: resumes from the last checkpoint", true},
    {77, "stopped", "stopped by `gputrain stop`: do not requeue", true},
    {93, "no-progress", "restarts spent on failures of different causes: do not requeue", false},
    {124, "hang", "hang, or launch.max_duration reached", true},
    {126, "cannot-execute", "a program cannot be executed", false},
    {127, "not-found", "a program was not found", false},
    {130, "interrupted", "Ctrl-C: saved first", true},
};

}  // namespace

std::span<const ExitCodeRow> exit_code_table() {
  return kTable;
}

std::optional<ExitCodeRow> find_exit_code(int code) {
  for (const auto& row : kTable) {
    if (row.code == code) return row;
  }
  return std::nullopt;
}

std::string signal_name(int signal_number) {
  const char* abbreviation = sigabbrev_np(signal_number);
  return abbreviation ? std::string("SIG") + abbreviation : "signal " + std::to_string(signal_number);
}

std::string exit_code_markdown() {
  std::string text = "| code | outcome | meaning | resumable |\n|---|---|---|---|\n";
  for (const auto& row : kTable) {
    text += "| " + std::to_string(row.code) + " | " + std::string(row.word) + " | " + std::string(row.meaning) + " | " +
            (row.resumable ? "yes" : "no") + " |\n";
  }
  text +=
      "| 128+n | signal | the culprit died by signal n (137: result.json says whether the kernel's OOM killer did it) "
      "| no |\n";
  return text;
}

}  // namespace gputrain

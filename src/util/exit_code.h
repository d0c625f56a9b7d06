#pragma once
// The exit codes of every gputrain program: one table, from which README's table is generated and which tests drive row
// by row.
//
// 1-63 (other than 2) pass the first culprit's own code through. 128+n means that the culprit died by signal n.
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace gputrain {

enum class ExitCode : int {
  kDone = 0,
  kFailed = 1,        // a rank failed with an error that has no code of its own; result.json has the word
  kUsage = 2,         // bad command line
  kSpec = 64,         // bad YAML, hostfile, model, argument, transform; sizes that contradict each other
  kData = 65,         // data missing, malformed or changed
  kEnvironment = 69,  // preflight failed, host unreachable, more ranks than GPUs
  kInternal = 70,     // gputrain's own fault
  kOutput = 73,       // output directory unwritable, full, or locked by a live run
  kCheckpoint = 74,   // a checkpoint cannot be read or written
  kPreempted = 75,    // state saved: run me again
  kPreemptedUnsaved = 76,
  kStopped = 77,     // `gputrain stop`: do not requeue
  kNoProgress = 93,  // restarts spent on failures of different causes
  kHang = 124,       // hang, or max_duration reached
  kCannotExecute = 126,
  kNotFound = 127,
  kInterrupted = 130,  // Ctrl-C: saved first
};

struct ExitCodeRow {
  int code;
  std::string_view word;     // the outcome word in result.json
  std::string_view meaning;  // one line for people
  bool resumable;            // launching the same command again continues the run
};

// All rows with a fixed number, ascending.
std::span<const ExitCodeRow> exit_code_table();

// The row of a fixed code; nullopt for pass-through codes and 128+n.
std::optional<ExitCodeRow> find_exit_code(int code);

// 128 + signal number, the shell's convention.
constexpr int signal_exit_code(int signal_number) {
  return 128 + signal_number;
}

// "SIGKILL" for 9, "signal 99" for one without a name.
std::string signal_name(int signal_number);

// The README's Markdown table of exit_code_table(); a test compares it with the file.
std::string exit_code_markdown();

}  // namespace gputrain

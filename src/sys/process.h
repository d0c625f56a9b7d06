#pragma once
// Starting and ending processes. Containment: a process group of its own, PDEATHSIG=SIGKILL (from the calling thread,
// which must live as long as the child may), a subreaper for grandchildren. Kills go to pids and groups this program
// started, never to patterns.
#include <array>
#include <csignal>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <sys/types.h>

#include "util/error.h"

namespace gputrain {

struct SpawnOptions {
  std::vector<std::string> argv;                                 // argv[0] is a path, or a name looked up in PATH
  std::vector<std::pair<std::string, std::string>> env;          // added to, or replacing, this process's environment
  std::vector<std::pair<std::string, std::string>> default_env;  // added where neither has the name
  std::vector<std::pair<int, int>> fds;  // {ours, theirs}: inherited as that number; everything else closes on exec
  int stdin_fd = -1, stdout_fd = -1, stderr_fd = -1;  // -1: /dev/null for stdin, inherited for the others
  bool own_group = true;                              // setpgid(0, 0): signals to our terminal's group do not reach it
  bool die_with_parent = true;                        // PDEATHSIG = SIGKILL, with the getppid() race closed
  std::vector<int> blocked_signals;                   // blocked when the program starts (all others unblocked)
  std::vector<int> kept_ignored;  // stay ignored if we ignore them (nohup); all others get the default action
  std::string working_directory;  // "" = ours
};

struct Child {
  pid_t pid = -1;
  int pidfd = -1;  // readable when the process has ended; the caller closes it
};

// Why a program did not start: kind kNotFound (ENOENT), kCannotExecute, or kEnvironment (no descriptors, memory,
// processes left).
struct SpawnError : Error {
  SpawnError(int error_number, const std::string& program, const std::string& step);
  int error_number;
};

// Throws SpawnError when exec fails (reported over a pipe, so a bad path is known here and not by exit 127). A file
// without "#!" that is no executable fails (ENOEXEC); no shell is tried. `fds` and the stdio descriptors may be in any
// state of CLOEXEC.
Child spawn(const SpawnOptions& options);

struct ExitStatus {
  int code = 0;
  int signal = 0;  // 0 = exited with `code`
  long max_rss_kib = 0;
};
// Reaps a child that has ended (its pidfd is readable). Blocks otherwise. Throws Error(kInternal) when it is not our
// child.
ExitStatus reap(const Child& child);
bool has_ended(const Child& child);  // without reaping it

// SIGKILL etc. to the whole group of a child started with own_group. A group that is gone is success. Only before the
// child is reaped: until then its number cannot belong to somebody else.
void signal_group(pid_t pid, int signal_number);

// This process becomes the reaper of orphaned descendants (PR_SET_CHILD_SUBREAPER).
void become_subreaper();
// All living descendants of this process, read from /proc.
std::vector<pid_t> descendants();
// Reaps dead children that a subreaper has inherited, but none of `keep` (children that somebody will reap()): it stops
// at the first of those, so call it again later. Cheap: one system call when there is nothing to do.
void reap_orphans(const std::vector<pid_t>& keep);
// What /proc/PID/stat says.
struct ProcessStat {
  char state = '?';  // 'Z', 'X': it has ended, only its parent has not looked yet
  pid_t parent = 0;
  uint64_t start_time = 0;  // clock ticks since boot: with the pid it names a process for good
};
std::optional<ProcessStat> process_stat(pid_t pid);  // nullopt: no such process
uint64_t process_start_time(pid_t pid);              // 0: no such process

std::string executable_directory();  // of /proc/self/exe
std::string boot_id();
std::string host_name();
int cpu_count();  // from the affinity mask, not the machine
// What a scheduler, a terminal or a person stops a run with.
inline constexpr std::array kNoticeSignals{SIGTERM, SIGINT, SIGHUP, SIGUSR1};
// Is it ignored in this process? By the starter's will (nohup, `&` in a script), unless we did it. Async-signal-safe.
bool is_ignored(int signal_number);
std::vector<int> heeded_notice_signals();  // those of kNoticeSignals that are not
void ignore_sigpipe();                     // first thing in every process: Gloo writes without MSG_NOSIGNAL

}  // namespace gputrain

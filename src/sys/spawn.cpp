// spawn(): everything is prepared before fork(); the child makes only async-signal-safe calls until exec.
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sys/fd.h"
#include "sys/process.h"
#include "util/text.h"

namespace gputrain {
namespace {

// What the child reports over the status pipe before it gives up.
struct Failure {
  int error_number;
  char step[24];
};

std::string variable(const std::vector<std::string>& environment, const std::string& name) {
  const std::string prefix = name + "=";
  for (const auto& entry : environment) {
    if (entry.compare(0, prefix.size(), prefix) == 0) return entry.substr(prefix.size());
  }
  return "";
}

std::vector<std::string> merged_environment(const SpawnOptions& options) {
  std::vector<std::string> merged;
  for (char** entry = environ; *entry; ++entry) {
    const std::string_view name(*entry, strcspn(*entry, "="));
    const bool replaced =
        std::any_of(options.env.begin(), options.env.end(), [&](const auto& item) { return item.first == name; });
    if (!replaced) merged.emplace_back(*entry);
  }
  for (const auto& [name, value] : options.env) merged.push_back(name + "=" + value);
  for (const auto& [name, value] : options.default_env) {
    const std::string prefix = name + "=";
    const bool set = std::any_of(merged.begin(), merged.end(),
                                 [&](const auto& entry) { return entry.compare(0, prefix.size(), prefix) == 0; });
    if (!set) merged.push_back(prefix + value);
  }
  return merged;
}

// The path to execute. Not found in PATH: the bare name, whose exec then fails with ENOENT.
std::string resolve(const std::string& program, const std::vector<std::string>& environment) {
  if (program.find('/') != std::string::npos) return program;
  for (const auto& directory : split(variable(environment, "PATH"), ':')) {
    std::string candidate = (directory.empty() ? "." : directory) + "/" + program;
    struct stat status;
    if (stat(candidate.c_str(), &status) == 0 && S_ISREG(status.st_mode) && access(candidate.c_str(), X_OK) == 0) {
      return candidate;
    }
  }
  return program;
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> result;
  result.reserve(words.size() + 1);
  for (auto& word : words) result.push_back(word.data());
  result.push_back(nullptr);
  return result;
}

// All that the child needs, allocated before fork().
struct Launch {
  std::string program;
  std::vector<std::string> arguments, environment;
  std::vector<char*> argv, envp;
  std::vector<std::pair<int, int>> fds;  // with the stdio descriptors
  int first_free = 3;                    // above every target descriptor
  UniqueFd null;
  pid_t parent = getpid();

  explicit Launch(const SpawnOptions& options) : arguments(options.argv), environment(merged_environment(options)) {
    GP_CHECK(!options.argv.empty(), "spawn without a program");
    program = resolve(options.argv[0], environment);
    argv = pointers(arguments);
    envp = pointers(environment);
    fds = options.fds;
    if (options.stdin_fd < 0) null.reset(open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (options.stdin_fd < 0 && !null) throw SpawnError(errno, options.argv[0], "/dev/null");
    fds.emplace_back(options.stdin_fd >= 0 ? options.stdin_fd : null.get(), 0);
    if (options.stdout_fd >= 0) fds.emplace_back(options.stdout_fd, 1);
    if (options.stderr_fd >= 0) fds.emplace_back(options.stderr_fd, 2);
    for (const auto& item : fds) first_free = std::max(first_free, item.second + 1);
  }
};

[[noreturn]] void give_up(int status_fd, const char* step) {
  Failure failure{errno, {}};
  strncpy(failure.step, step, sizeof failure.step - 1);
  [[maybe_unused]] const auto written = write(status_fd, &failure, sizeof failure);
  _exit(127);
}

void close_others_on_exec() {
  if (close_range(3, ~0u, CLOSE_RANGE_CLOEXEC) == 0) return;
  // Kernels before 5.11. A gap above 65536 descriptors is possible only by a limit that nobody sets there.
  for (int fd = 3; fd < 65536; ++fd) fcntl(fd, F_SETFD, FD_CLOEXEC);
}

int move_up(int fd, int first_free, int status_fd) {
  const int moved = fcntl(fd, F_DUPFD_CLOEXEC, first_free);
  if (moved >= 0) return moved;
  if (errno == EINVAL) errno = EMFILE;  // the limit is below `first_free`
  give_up(status_fd, "dup");
}

// In two passes, so that a target number never overwrites a descriptor that is still needed.
void place_fds(Launch& launch, int& status_fd) {
  status_fd = move_up(status_fd, launch.first_free, status_fd);
  for (auto& item : launch.fds) item.first = move_up(item.first, launch.first_free, status_fd);
  close_others_on_exec();
  for (const auto& item : launch.fds) {
    if (dup2(item.first, item.second) < 0) give_up(status_fd, "dup2");
  }
}

void reset_signals(const SpawnOptions& options) {
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  for (int signal = 1; signal < NSIG; ++signal) {
    const auto& kept = options.kept_ignored;
    if (is_ignored(signal) && std::find(kept.begin(), kept.end(), signal) != kept.end()) continue;
    sigaction(signal, &action, nullptr);
  }
  sigset_t set;
  sigemptyset(&set);
  for (int signal : options.blocked_signals) sigaddset(&set, signal);
  sigprocmask(SIG_SETMASK, &set, nullptr);
}

[[noreturn]] void run_child(const SpawnOptions& options, Launch& launch, int status_fd) {
  if (options.own_group && setpgid(0, 0) != 0) give_up(status_fd, "setpgid");
  if (options.die_with_parent) {
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) give_up(status_fd, "PR_SET_PDEATHSIG");
    if (getppid() != launch.parent) _exit(127);  // it died before the line above
  }
  place_fds(launch, status_fd);
  if (!options.working_directory.empty() && chdir(options.working_directory.c_str()) != 0) give_up(status_fd, "chdir");
  reset_signals(options);
  execve(launch.program.c_str(), launch.argv.data(), launch.envp.data());
  give_up(status_fd, "exec");
}

// Whose fault it is: the program's own, or that of a machine without room for one more process, pipe or file.
ErrorKind kind_of(int error_number, const std::string& step) {
  const bool no_room =
      error_number == EMFILE || error_number == ENFILE || error_number == EAGAIN || error_number == ENOMEM;
  if (step != "exec" || no_room) return ErrorKind::kEnvironment;
  return error_number == ENOENT ? ErrorKind::kNotFound : ErrorKind::kCannotExecute;
}

std::string remedy(int error_number) {
  rlimit limit{};
  if (error_number != EMFILE || getrlimit(RLIMIT_NOFILE, &limit) != 0) return "";
  return "raise the limit of open files: ulimit -n " + std::to_string(std::max<rlim_t>(1024, 2 * limit.rlim_cur));
}

}  // namespace

SpawnError::SpawnError(int error_number, const std::string& program, const std::string& step)
    : Error(kind_of(error_number, step),
            "cannot execute " + program + ": " + errno_text(error_number) + (step == "exec" ? "" : " (" + step + ")"),
            "", remedy(error_number)),
      error_number(error_number) {}

Child spawn(const SpawnOptions& options) {
  Launch launch(options);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw SpawnError(errno, options.argv[0], "pipe");
  UniqueFd status_read(ends[0]), status_write(ends[1]);

  // Blocked around fork(), so that no handler of ours runs in the child.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  Child child;
  child.pid = fork();
  const int fork_error = errno;
  if (child.pid == 0) run_child(options, launch, status_write.get());
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (child.pid < 0) throw SpawnError(fork_error, options.argv[0], "fork");
  status_write.reset();

  Failure failure{};
  ssize_t length;
  do {
    length = read(status_read.get(), &failure, sizeof failure);
  } while (length < 0 && errno == EINTR);
  if (length == static_cast<ssize_t>(sizeof failure)) {
    waitpid(child.pid, nullptr, 0);
    throw SpawnError(failure.error_number, launch.program, failure.step);
  }
  // By number: <sys/pidfd.h> of glibc 2.36 lacks extern "C".
  child.pidfd = static_cast<int>(syscall(SYS_pidfd_open, child.pid, 0));
  if (child.pidfd < 0) {
    const int error = errno;
    kill(child.pid, SIGKILL);
    waitpid(child.pid, nullptr, 0);
    throw SpawnError(error, launch.program, "pidfd_open");
  }
  return child;
}

}  // namespace gputrain

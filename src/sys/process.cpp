#include "sys/process.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>

#include <dirent.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sys/fd.h"

namespace gputrain {
namespace {

struct ProcessEntry {
  pid_t pid;
  ProcessStat stat;
};

std::vector<ProcessEntry> all_processes() {
  std::vector<ProcessEntry> entries;
  DIR* directory = opendir("/proc");
  if (!directory) return entries;
  while (const dirent* item = readdir(directory)) {
    char* end = nullptr;
    const long pid = std::strtol(item->d_name, &end, 10);
    if (pid <= 0 || *end != '\0') continue;
    if (const auto stat = process_stat(static_cast<pid_t>(pid))) entries.push_back({static_cast<pid_t>(pid), *stat});
  }
  closedir(directory);
  return entries;
}

std::string read_first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

}  // namespace

ExitStatus reap(const Child& child) {
  int status = 0;
  rusage usage{};
  pid_t pid;
  do {
    pid = wait4(child.pid, &status, 0, &usage);
  } while (pid < 0 && errno == EINTR);
  if (pid < 0) {
    throw Error(ErrorKind::kInternal,
                "cannot wait for process " + std::to_string(child.pid) + ": " + errno_text(errno));
  }
  ExitStatus result;
  result.max_rss_kib = usage.ru_maxrss;
  if (WIFSIGNALED(status)) {
    result.signal = WTERMSIG(status);
  } else {
    result.code = WEXITSTATUS(status);
  }
  return result;
}

bool has_ended(const Child& child) {
  pollfd item{child.pidfd, POLLIN, 0};
  return poll(&item, 1, 0) == 1;
}

void signal_group(pid_t pid, int signal_number) {
  GP_CHECK(pid > 1, "process group " + std::to_string(pid) + " is not a child's");
  if (killpg(pid, signal_number) == 0) return;
  // EPERM: what is left of the group has changed its user, and is out of our reach.
  if (errno != ESRCH && errno != EPERM) {
    throw Error(ErrorKind::kInternal, "cannot signal process group " + std::to_string(pid) + ": " + errno_text(errno));
  }
}

void become_subreaper() {
  if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) {
    throw Error(ErrorKind::kInternal, "PR_SET_CHILD_SUBREAPER: " + errno_text(errno));
  }
}

std::vector<pid_t> descendants() {
  const auto entries = all_processes();
  std::vector<pid_t> family{getpid()};
  // A parent may come after its child in `entries`: each round over them finds one more generation.
  for (size_t begin = 0; begin < family.size(); ++begin) {
    for (const auto& entry : entries) {
      if (entry.stat.parent == family[begin]) family.push_back(entry.pid);
    }
  }
  family.erase(family.begin());
  std::erase_if(family, [&](pid_t pid) {
    const auto entry = std::find_if(entries.begin(), entries.end(), [&](const auto& e) { return e.pid == pid; });
    return entry->stat.state == 'Z' || entry->stat.state == 'X';
  });
  return family;
}

void reap_orphans(const std::vector<pid_t>& keep) {
  while (true) {
    siginfo_t dead{};
    if (waitid(P_ALL, 0, &dead, WEXITED | WNOHANG | WNOWAIT) != 0 || dead.si_pid == 0) return;
    if (std::find(keep.begin(), keep.end(), dead.si_pid) != keep.end()) return;
    waitpid(dead.si_pid, nullptr, WNOHANG);
  }
}

// The name (field 2) may hold blanks and parentheses: fields are counted from its end.
std::optional<ProcessStat> process_stat(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  const auto end_of_name = line.rfind(')');
  if (end_of_name == std::string::npos) return std::nullopt;
  std::istringstream fields(line.substr(end_of_name + 1));
  ProcessStat stat;
  fields >> stat.state >> stat.parent;
  std::string skipped;
  for (int field = 5; field < 22; ++field) fields >> skipped;
  if (!(fields >> stat.start_time)) return std::nullopt;
  return stat;
}

uint64_t process_start_time(pid_t pid) {
  const auto stat = process_stat(pid);
  return stat ? stat->start_time : 0;
}

std::string executable_directory() {
  char path[PATH_MAX];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path);
  if (length <= 0) throw Error(ErrorKind::kInternal, "cannot read /proc/self/exe: " + errno_text(errno));
  const std::string whole(path, static_cast<size_t>(length));
  return whole.substr(0, std::max<size_t>(1, whole.rfind('/')));
}

std::string boot_id() {
  return read_first_line("/proc/sys/kernel/random/boot_id");
}

std::string host_name() {
  char name[HOST_NAME_MAX + 1] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "localhost";
}

int cpu_count() {
  // Grown until the kernel's mask fits: machines with more than 1024 CPUs exist.
  for (int cpus = 1024; cpus <= 1 << 20; cpus *= 2) {
    cpu_set_t* set = CPU_ALLOC(cpus);
    const size_t bytes = CPU_ALLOC_SIZE(cpus);
    const bool read = sched_getaffinity(0, bytes, set) == 0;
    const int count = read ? CPU_COUNT_S(bytes, set) : 0;
    CPU_FREE(set);
    if (read) return std::max(1, count);
  }
  return 1;
}

bool is_ignored(int signal_number) {
  struct sigaction action {};
  return sigaction(signal_number, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

std::vector<int> heeded_notice_signals() {
  std::vector<int> heeded;
  std::remove_copy_if(kNoticeSignals.begin(), kNoticeSignals.end(), std::back_inserter(heeded), is_ignored);
  return heeded;
}

void ignore_sigpipe() {
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);  // a file-size limit is an error of write(2), like a full disk
}

}  // namespace gputrain

#include "cli/environment.h"

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sys/process.h"
#include "util/error.h"
#include "util/text.h"
#include "wire/env.h"

namespace gputrain {
namespace {

// GPUs by the driver's device files: right without loading the driver, and 0 where a container has none.
int gpus_of_the_machine() {
  int count = 0;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/dev", ignored)) {
    const std::string name = entry.path().filename();
    count +=
        name.starts_with("nvidia") && name.size() > 6 && name.find_first_not_of("0123456789", 6) == std::string::npos;
  }
  return count;
}

// CUDA's own rule: the list ends at the first invalid entry; empty or -1 hides all; the same device twice hides all.
int visible_gpus() {
  const int present = gpus_of_the_machine();
  const auto list = environment_variable("CUDA_VISIBLE_DEVICES");
  if (!list) return present;
  std::set<std::string> seen;
  for (const auto& item : split(*list, ',')) {
    const std::string device(trim(item));
    const auto index = parse_int(device);
    if (device.empty() || (index && (*index < 0 || *index >= present))) break;
    if (!seen.insert(device).second) return 0;
  }
  return std::min(present, static_cast<int>(seen.size()));
}

}  // namespace

std::optional<std::string> environment_variable(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value ? std::optional<std::string>(value) : std::nullopt;
}

std::vector<std::string> variables_with(std::string_view prefix) {
  std::vector<std::string> names;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    if (text.starts_with(prefix)) names.emplace_back(text.substr(0, text.find('=')));
  }
  std::sort(names.begin(), names.end());
  return names;
}

HostFacts host_facts() {
  HostFacts facts;
  facts.cores = cpu_count();
  facts.gpus = visible_gpus();
  facts.cuda_library = std::filesystem::exists(executable_directory() + "/libgputrain_cuda.so");
  std::error_code problem;
  facts.cwd = std::filesystem::current_path(problem);
  if (problem) throw Error(ErrorKind::kEnvironment, "the working directory is gone: " + problem.message());
  return facts;
}

void check_open_files(int ranks_of_a_host) {
  constexpr rlim_t kOurs = 48, kOfARank = 4;  // an agent holds socket, pipe, pidfd and log of each of its ranks
  const rlim_t needed = kOurs + kOfARank * static_cast<rlim_t>(ranks_of_a_host);
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= needed) return;
  throw Error(
      ErrorKind::kEnvironment,
      "only " + std::to_string(limit.rlim_cur) + " files may be open at once, a run needs " + std::to_string(needed),
      "", "raise the limit: ulimit -n " + std::to_string(std::max<rlim_t>(1024, needed)));
}

std::string worker_program() {
  return environment_variable(env::kWorker).value_or(executable_directory() + "/gputrain-worker");
}

std::string this_program() {
  return executable_directory() + "/gputrain";
}

std::string program_as_typed() {
  std::string word;
  std::getline(std::ifstream("/proc/self/cmdline"), word, '\0');
  return word.empty() ? "gputrain" : word;
}

std::string control_directory() {
  const auto runtime = environment_variable("XDG_RUNTIME_DIR");
  const std::string directory = runtime && runtime->starts_with('/') && runtime->size() < 60
                                    ? *runtime + "/gputrain"
                                    : "/tmp/gputrain-" + std::to_string(getuid());
  if (mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) {
    throw Error(ErrorKind::kEnvironment, "cannot create the directory for control sockets: " + errno_text(errno),
                directory, "set XDG_RUNTIME_DIR to a private directory of yours");
  }
  struct stat info {};
  if (lstat(directory.c_str(), &info) != 0 || !S_ISDIR(info.st_mode) || info.st_uid != getuid() ||
      (info.st_mode & 077) != 0) {
    throw Error(ErrorKind::kEnvironment, "the directory for control sockets is not a private directory of this user",
                directory, "remove it, or set XDG_RUNTIME_DIR to a private directory of yours");
  }
  return directory;
}

bool stderr_is_terminal() {
  return isatty(STDERR_FILENO) == 1;
}

std::string read_spec_file(const std::string& path) {
  std::error_code ignored;  // what cannot be told here is told by the read
  if (std::filesystem::is_directory(path, ignored))
    throw Error(ErrorKind::kSpec, "is a directory, not a YAML file", path);
  std::ifstream file(path, std::ios::binary);
  if (!file)
    throw Error(ErrorKind::kSpec, "cannot read the spec: " + errno_text(errno), path,
                "`gputrain init` prints an example to start from");
  // Devices have no end, and no person writes this much.
  constexpr size_t kMost = 16 << 20;
  std::string text;
  char block[1 << 14];
  while (text.size() <= kMost && (file.read(block, sizeof block), file.gcount() > 0))
    text.append(block, static_cast<size_t>(file.gcount()));
  if (text.size() > kMost) throw Error(ErrorKind::kSpec, "is larger than 16 MiB: no spec", path);
  return text;
}

}  // namespace gputrain

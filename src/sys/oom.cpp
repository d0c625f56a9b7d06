#include "sys/oom.h"

#include <fstream>
#include <iterator>
#include <sstream>

#include "util/text.h"

namespace gputrain {
namespace {

// The number after "oom_kill" in a file of "name value" lines.
std::optional<int64_t> read_counter(const std::string& path) {
  std::ifstream file(path);
  std::string name;
  int64_t value = 0;
  while (file >> name >> value) {
    if (name == "oom_kill") return value;
  }
  return std::nullopt;
}

std::optional<int64_t> first_of(const std::initializer_list<std::string>& paths) {
  for (const auto& path : paths) {
    if (const auto count = read_counter(path)) return count;
  }
  return std::nullopt;
}

}  // namespace

std::optional<int64_t> oom_kill_count(const std::string& mount, const std::string& cgroups) {
  // Lines are id:controllers:path. In a container the path may be the host's, and the mount point itself is our group.
  std::optional<int64_t> count;
  for (const auto& line : split(cgroups, '\n')) {
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string path = line.substr(second + 1);
    if (controllers == ",,") {
      count = first_of({mount + path + "/memory.events", mount + "/memory.events"});
    } else if (controllers.find(",memory,") != std::string::npos) {
      count = first_of({mount + "/memory" + path + "/memory.oom_control", mount + "/memory/memory.oom_control"});
    }
    if (count) return count;
  }
  return std::nullopt;
}

std::optional<int64_t> oom_kill_count() {
  std::ifstream file("/proc/self/cgroup");
  return oom_kill_count("/sys/fs/cgroup", std::string(std::istreambuf_iterator<char>(file), {}));
}

}  // namespace gputrain

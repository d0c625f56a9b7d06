#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace gputrain {

// How many processes of this process's memory cgroup (and below) the kernel's OOM killer has ended so far, from
// memory.events (cgroup v2) or memory.oom_control (v1). nullopt where neither can be read: then nobody can tell.
std::optional<int64_t> oom_kill_count();

// The same below another mount point (tests). `cgroups` is the text of /proc/self/cgroup.
std::optional<int64_t> oom_kill_count(const std::string& mount, const std::string& cgroups);

}  // namespace gputrain

#include "train/exactness.h"

#include <set>

#include <ATen/Version.h>
#include <torch/headeronly/version.h>

#include "util/text.h"

namespace gputrain {

Json exactness_of(const RunPlan& plan, int threads, const std::string& device) {
  Json ranks_per_host = Json::array();
  for (const HostPlan& host : plan.launch.hosts) ranks_per_host.push_back(host.slots);
  Json exactness;
  exactness["world_size"] = plan.launch.world_size;
  exactness["ranks_per_host"] = ranks_per_host;
  exactness["threads"] = threads;
  exactness["micro_batch"] = plan.train.micro_batch;
  exactness["reducer"] = plan.reducer;
  exactness["deterministic"] = plan.train.deterministic;
  exactness["isa"] = at::get_cpu_capability();
  exactness["device"] = device;
  exactness["torch"] = TORCH_VERSION;
  return exactness;
}

std::string exactness_notice(const Json& saved, const Json& now) {
  std::vector<std::string> changes;
  for (const auto& [name, value] : now.items()) {
    const Json before = saved.contains(name) ? saved.at(name) : Json();
    if (before != value) changes.push_back(name + " " + dump_line(before) + " -> " + dump_line(value));
  }
  return changes.empty() ? "" : "sample-exact, not bit-exact: " + join(changes, ", ");
}

}  // namespace gputrain

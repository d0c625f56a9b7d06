#include "spec/placement.h"

#include <algorithm>

#include "spec/shares.h"
#include "util/text.h"

namespace gputrain {
namespace {

// N of "local:N".
std::optional<int> slots_in(const std::string& host) {
  const size_t colon = host.find(':');
  if (colon == std::string::npos) return std::nullopt;
  return static_cast<int>(*parse_int(std::string_view(host).substr(colon + 1)));
}

// Ranks that a host gets: its own number, or nproc_per_node, or its devices.
int slots_of(const std::string& host, std::optional<int64_t> per_node, int devices) {
  return slots_in(host).value_or(static_cast<int>(per_node.value_or(std::max(1, devices))));
}

int asked_ranks(const Spec& spec) {
  const auto per_node = spec.integer("launch.nproc_per_node");
  int ranks = 0;
  for (const auto& host : spec.at("launch.hosts")) ranks += slots_of(host.get<std::string>(), per_node, 1);
  return ranks;
}

Backend choose_backend(const Spec& spec, const HostFacts& facts, std::vector<Error>* errors,
                       std::vector<Notice>* notices) {
  const auto wanted = spec.at("launch.backend").get<std::string>();
  const bool usable = facts.gpus > 0 && facts.cuda_library;
  if (wanted == "gloo") return Backend::kGloo;
  if (wanted == "nccl") {
    if (facts.gpus == 0) {
      errors->push_back(spec.error_at(
          "launch.backend", "nccl needs a GPU for each rank: " + plural(asked_ranks(spec), "rank") + " on 0 GPUs",
          ErrorKind::kEnvironment, "check nvidia-smi and CUDA_VISIBLE_DEVICES, or use backend gloo"));
    } else if (!facts.cuda_library) {
      errors->push_back(spec.error_at("launch.backend", "nccl needs libgputrain_cuda.so, which this installation lacks",
                                      ErrorKind::kEnvironment, "build with -DGPUTRAIN_CUDA=ON, or use backend gloo"));
    }
    return Backend::kNccl;
  }
  if (facts.gpus == 0) notices->push_back({"cpu_only", "no GPU found: training on the CPU with gloo"});
  if (facts.gpus > 0 && !facts.cuda_library) {
    notices->push_back({"cpu_only", "training on the CPU with gloo: " + plural(facts.gpus, "GPU") +
                                        " found, but this installation lacks libgputrain_cuda.so"});
  }
  // A smoke run tells whether training works here at all: with fewer GPUs than ranks it takes the CPU.
  if (usable && spec.smoke() && asked_ranks(spec) > facts.gpus) return Backend::kGloo;
  return usable ? Backend::kNccl : Backend::kGloo;
}

void place_devices(const Spec& spec, const HostFacts& facts, LaunchPlan* launch, std::vector<Error>* errors) {
  const auto per_node = spec.integer("launch.nproc_per_node");
  const Json& hosts = spec.at("launch.hosts");
  const auto count = static_cast<int>(hosts.size());
  const bool on_gpus = launch->backend == Backend::kNccl;
  const int cpu_ranks = std::min(facts.cores, 2);
  for (int i = 0; i < count; ++i) {
    HostPlan host;
    host.name = "local";
    host.cores = std::max(1, static_cast<int>(share_of(facts.cores, i, count).size()));
    const Range gpus = share_of(facts.gpus, i, count);
    const int devices = on_gpus ? static_cast<int>(gpus.size()) : cpu_ranks / count;
    const auto text = hosts[i].get<std::string>();
    host.slots = slots_of(text, per_node, devices);
    for (int slot = 0; on_gpus && slot < host.slots; ++slot) host.gpus.push_back(static_cast<int>(gpus.begin) + slot);
    if (on_gpus && facts.gpus > 0 && host.slots > gpus.size()) {
      const std::string key =
          slots_in(text) || !per_node ? "launch.hosts[" + std::to_string(i) + "]" : "launch.nproc_per_node";
      const std::string whose = count == 1 ? ""
                                           : " of agent " + std::to_string(i + 1) + " (" + plural(facts.gpus, "GPU") +
                                                 " divided among " + plural(count, "agent") + ")";
      errors->push_back(spec.error_at(key, plural(host.slots, "rank") + " on " + plural(gpus.size(), "GPU") + whose,
                                      ErrorKind::kEnvironment,
                                      "use at most one rank a GPU, or backend gloo for the CPU"));
    }
    launch->hosts.push_back(std::move(host));
  }
}

}  // namespace

LaunchPlan place_ranks(const Spec& spec, const HostFacts& facts, std::vector<Error>* errors,
                       std::vector<Notice>* notices) {
  LaunchPlan launch;
  launch.backend = choose_backend(spec, facts, errors, notices);
  place_devices(spec, facts, &launch, errors);
  launch.world_size = 0;
  for (const auto& host : launch.hosts) launch.world_size += host.slots;
  launch.omp_threads =
      static_cast<int>(spec.integer("launch.omp_threads").value_or(std::max(1, cores_per_rank(launch))));
  if (launch.backend == Backend::kGloo && launch.world_size > facts.cores) {
    notices->push_back(
        {"oversubscribed", plural(launch.world_size, "CPU rank") + " share " + plural(facts.cores, "core")});
  }
  auto duration_at = [&](std::string_view key) { return parse_duration(spec.at(key).get<std::string>()); };
  launch.grace = *duration_at("launch.grace");
  launch.max_restarts = static_cast<int>(*spec.integer("launch.max_restarts"));
  launch.max_duration = duration_at("launch.max_duration");
  launch.lease = *duration_at("launch.lease");
  return launch;
}

int cores_per_rank(const LaunchPlan& launch) {
  int fewest = launch.hosts[0].cores;
  for (const auto& host : launch.hosts) fewest = std::min(fewest, host.cores / host.slots);
  return fewest;
}

}  // namespace gputrain

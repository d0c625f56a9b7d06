#include "launch/agent_command.h"

#include <limits>

#include "launch/log_path.h"
#include "util/text.h"
#include "wire/env.h"

namespace gputrain {
namespace {

std::string log_path(const Start& start, int rank) {
  const auto output = start.plan.find("output");
  if (output == start.plan.end() || !output->is_string()) return "";
  return rank_log_path(output->get<std::string>(), attempt_name(start.attempt), rank);
}

bool is_deterministic(const Json& plan) {
  const auto train = plan.find("train");
  return train != plan.end() && train->is_object() && train->value("deterministic", false);
}

// A plan counts the devices that this agent sees; the driver counts the machine's.
std::string driver_device(const std::string& visible, int device) {
  if (visible.empty()) return std::to_string(device);
  const auto entries = split(visible, ',');
  if (static_cast<size_t>(device) < entries.size()) return std::string(trim(entries[static_cast<size_t>(device)]));
  throw Error(ErrorKind::kEnvironment,
              "device " + std::to_string(device) + " is not in CUDA_VISIBLE_DEVICES=" + visible);
}

// glibc hands the top of the heap back after every backward and faults it in again in the next forward: a tenth to a
// fifth of a step on CPU (ResNet-18). With these a rank keeps what it will need again. 32 MiB is the most that glibc
// takes as the size from which a block is mapped on its own. Huge pages (glibc 2.35 and later, where the kernel leaves
// them to madvise) save a tenth of what is bound by memory, as an optimizer's step is.
std::vector<std::pair<std::string, std::string>> malloc_environment() {
  return {{"MALLOC_TRIM_THRESHOLD_", std::to_string(std::numeric_limits<int64_t>::max())},
          {"MALLOC_MMAP_THRESHOLD_", std::to_string(32 << 20)},
          {"GLIBC_TUNABLES", "glibc.malloc.hugetlb=1"}};
}

}  // namespace

RankCommand rank_command(const AgentOptions& options, const Start& start, const SlotAssignment& slot,
                         bool has_store_listener) {
  RankCommand command;
  command.worker = start.worker.empty() ? options.worker : start.worker;
  command.log_path = log_path(start, slot.rank);

  Assign& assign = command.assign;
  assign.attempt = start.attempt;
  assign.run_id = start.run_id;
  assign.rank = slot.rank;
  assign.world_size = start.world_size;
  assign.local_rank = slot.local_rank;
  assign.local_world_size = static_cast<int>(start.slots.size());
  assign.device = slot.device < 0 ? -1 : 0;
  assign.threads = slot.threads;
  assign.store_address = start.store_address;
  assign.store_port = start.store_port;
  assign.store_fd = slot.rank == 0 && has_store_listener ? env::kStoreListenFd : -1;
  assign.resume = start.resume;
  assign.plan = start.plan;

  command.environment = {
      {"RANK", std::to_string(slot.rank)},
      {"LOCAL_RANK", std::to_string(slot.local_rank)},
      {"WORLD_SIZE", std::to_string(start.world_size)},
      {"LOCAL_WORLD_SIZE", std::to_string(start.slots.size())},
      {"GROUP_RANK", std::to_string(start.group_rank)},
      {"MASTER_ADDR", start.store_address},
      {"MASTER_PORT", std::to_string(start.store_port)},
      {"TORCHELASTIC_RESTART_COUNT", std::to_string(start.attempt - 1)},
      {"TORCHELASTIC_RUN_ID", start.run_id},
      {"OMP_NUM_THREADS", std::to_string(slot.threads)},
  };
  command.default_environment = malloc_environment();
  if (slot.device >= 0) {
    command.environment.emplace_back("CUDA_VISIBLE_DEVICES", driver_device(options.visible_devices, slot.device));
    // Without it LibTorch refuses cuBLAS to deterministic runs.
    if (is_deterministic(start.plan)) command.default_environment.emplace_back("CUBLAS_WORKSPACE_CONFIG", ":4096:8");
  }
  return command;
}

}  // namespace gputrain

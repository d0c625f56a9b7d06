#include "launch/attempt_plan.h"

namespace gputrain {

int AttemptPlan::world_size() const {
  size_t ranks = 0;
  for (const auto& agent : agents) ranks += agent.slots.size();
  return static_cast<int>(ranks);
}

int AttemptPlan::agent_of(int rank) const {
  for (size_t agent = 0; agent < agents.size(); ++agent) {
    for (const auto& slot : agents[agent].slots) {
      if (slot.rank == rank) return static_cast<int>(agent);
    }
  }
  return -1;
}

AttemptPlan plan_attempt(const LaunchPlan& launch, int attempt) {
  AttemptPlan plan;
  plan.attempt = attempt;
  int rank = 0;
  for (const auto& host : launch.hosts) {
    AgentSlots agent{host.name, {}};
    for (int local = 0; local < host.slots; ++local) {
      const bool on_gpu = static_cast<size_t>(local) < host.gpus.size();
      agent.slots.push_back({rank++, local, on_gpu ? host.gpus[static_cast<size_t>(local)] : -1, launch.omp_threads});
    }
    plan.agents.push_back(std::move(agent));
  }
  return plan;
}

}  // namespace gputrain

#pragma once
// Who runs where in one attempt: rank r is slot l of agent a. Ranks are numbered host by host.
#include <string>
#include <vector>

#include "spec/plan.h"
#include "wire/messages.h"

namespace gputrain {

struct AgentSlots {
  std::string host;                   // as in the plan: "local"
  std::vector<SlotAssignment> slots;  // ascending ranks
};

struct AttemptPlan {
  int attempt = 0;
  std::vector<AgentSlots> agents;  // one for each HostPlan, same order
  int world_size() const;
  int agent_of(int rank) const;  // -1 for a rank that does not exist
};

AttemptPlan plan_attempt(const LaunchPlan& launch, int attempt);

}  // namespace gputrain

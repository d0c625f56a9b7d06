#pragma once
// Which rank runs where: hosts, slots, devices, threads. Internal to spec.
#include <vector>

#include "spec/plan.h"
#include "spec/resolve.h"
#include "spec/spec.h"

namespace gputrain {

// Agents on one machine divide its cores and GPUs evenly. On errors the plan is still complete, for further checks.
LaunchPlan place_ranks(const Spec& spec, const HostFacts& facts, std::vector<Error>* errors,
                       std::vector<Notice>* notices);

// On the host where a rank has fewest; may be 0.
int cores_per_rank(const LaunchPlan& launch);

}  // namespace gputrain

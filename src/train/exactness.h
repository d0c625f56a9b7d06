#pragma once
// What bit-exact resume depends on (design section 6.9): stored with a checkpoint and compared, so that a resume says
// what changed.
#include <string>

#include "spec/plan.h"
#include "util/json.h"

namespace gputrain {

// {world_size, ranks_per_host, threads, micro_batch, reducer, deterministic, isa, device, torch}. Ranks per host in
// rank order instead of host names: a checkpoint holds none. `device` is "cpu" or the GPU model's name.
Json exactness_of(const RunPlan& plan, int threads, const std::string& device);

// "" when equal, else "sample-exact, not bit-exact: world_size 2 -> 3, threads 1 -> 2".
std::string exactness_notice(const Json& saved, const Json& now);

}  // namespace gputrain

#pragma once
// One page of shared memory a rank (memfd, made by the agent): where the rank is. Read by the agent for status, fault
// placement and, after a death, for the verdict. Written by the rank's training thread only, with plain stores: no
// system call in the step.
#include <atomic>
#include <cstdint>
#include <string_view>

#include "wire/messages.h"

namespace gputrain {

enum class Phase : uint32_t {
  kSetUp,
  kDataWait,
  kForward,
  kBackward,
  kAllReduce,
  kOptimizer,
  kEvaluation,
  kWriting,
  kCommit /* written, not committed yet */,
  kIdle,
};
std::string_view to_string(Phase phase);  // "set-up", "data-wait", "forward", "backward", "all-reduce", "optimizer",
                                          // "evaluation", "writing", "commit", "idle"
bool phase_from(std::string_view word, Phase* phase);

struct ProgressPage {
  std::atomic<uint64_t> step{0};  // 1-based step being executed
  std::atomic<uint32_t> phase{0};
  std::atomic<uint64_t> collectives{0};  // gradient all-reduces issued
};
static_assert(std::atomic<uint64_t>::is_always_lock_free);

// Each value is whole, but they are read one after another while the rank runs on.
ProgressSnapshot snapshot(const ProgressPage& page);

}  // namespace gputrain

#pragma once
// Spec + facts about the machine -> RunPlan: "auto" decided, paths absolute, ranks placed. Pure.
#include <string>
#include <vector>

#include "spec/plan.h"
#include "spec/spec.h"

namespace gputrain {

// What the resolution needs to know about this machine.
struct HostFacts {
  int cores = 1;              // CPU cores this process may use
  int gpus = 0;               // GPUs visible to it
  bool cuda_library = false;  // libgputrain_cuda.so is there
  std::string cwd = "/";      // absolute; relative paths of the spec are below it
};

// Something legal that people should know before they wait for the result. Shown once at start, and in events.jsonl.
struct Notice {
  std::string word;  // "uneven_shares", "slow_precision", "cpu_only"
  std::string text;
};

// Throws ErrorList. kSpec (64): hosts that are not local, G < W, micro_batch too large. kEnvironment (69): nccl without
// GPUs or without its library, more ranks than GPUs. With both, kSpec stands first: its code is the exit code.
RunPlan resolve(const Spec& spec, const HostFacts& facts, std::vector<Notice>* notices);

// What must stay the same for a resume and does not: one Error(kSpec) an item, at the place in the spec. `old_identity`
// is what identity_of (plan.h) gave when the checkpoint was written. Empty: may resume.
std::vector<Error> compare_for_resume(const Json& old_identity, const RunPlan& now, const Spec& marks);

}  // namespace gputrain

#pragma once
// What events.jsonl says about earlier launches of the same output directory.
#include <cstdint>
#include <string>
#include <string_view>

#include "launch/restart_policy.h"

namespace gputrain {

struct RunHistory {
  std::string run_id;  // "" = nothing was launched here
  int last_attempt = 0;
  std::string plan_hash;    // of the newest start event found
  int64_t saved_step = -1;  // of the checkpoint that the next launch should find; -1 = none
  FailureRow row;           // failures since the newest checkpoint event
};

// Whether a line of events.jsonl is a step record, without parsing it: most lines are.
bool is_step_line(std::string_view line);

// Reads at most the first line and the last 64 MiB of the file (a long run writes gigabytes of step records). A missing
// file, torn or foreign lines are no errors. Throws Error(kOutput) when the file cannot be read.
RunHistory read_history(const std::string& output);

}  // namespace gputrain

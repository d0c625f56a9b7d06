#pragma once
// How one rank is started: the first message it gets, its environment and its log file.
#include <string>
#include <utility>
#include <vector>

#include "launch/agent.h"
#include "wire/messages.h"

namespace gputrain {

struct RankCommand {
  std::string worker;
  Assign assign;
  std::vector<std::pair<std::string, std::string>> environment;          // torchrun's contract, threads, visible device
  std::vector<std::pair<std::string, std::string>> default_environment;  // unless the user has set them
  std::string log_path;                                                  // "" when the plan names no output directory
};

// `has_store_listener`: this agent holds the attempt's listening socket; rank 0 inherits it.
RankCommand rank_command(const AgentOptions& options, const Start& start, const SlotAssignment& slot,
                         bool has_store_listener);

}  // namespace gputrain

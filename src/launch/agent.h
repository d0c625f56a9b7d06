#pragma once
#include <string>

namespace gputrain {

struct AgentOptions {
  int read_fd = 0;              // frames from the controller
  int write_fd = 1;             // frames to the controller
  std::string worker;           // default path of gputrain-worker (Start may name another)
};

// Runs one host's agent until Bye, end of file, or a lease without any message from the controller; then SIGKILLs every rank and
// descendant, and returns the process's exit code. Outlives attempts. Call with only this thread running.
int run_agent(const AgentOptions& options);

}  // namespace gputrain

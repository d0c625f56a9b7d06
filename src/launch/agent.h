#pragma once
#include <string>

namespace gputrain {

struct AgentOptions {
  int read_fd = 0;              // frames from the controller
  int write_fd = 1;             // frames to the controller
  std::string worker;           // default path of gputrain-worker (Start may name another)
  int gpus = 0;                 // told in AgentHello
  std::string visible_devices;  // the CUDA_VISIBLE_DEVICES this process was given: device n of a plan is its n-th
                                // entry; "" = none given
};

// Runs one host's agent until Bye, end of file, or a lease without any message from the controller; then SIGKILLs every
// rank and descendant, and returns the process's exit code: 0 after Bye, 70 otherwise. Outlives attempts. Call with
// only this thread running, after set_up_log (stdout belongs to the protocol).
int run_agent(const AgentOptions& options);

}  // namespace gputrain

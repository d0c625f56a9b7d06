// agent: one a host, started by the controller over pipes (later over ssh). Internal: hidden from --help.
#include <memory>

#include "cli/app.h"
#include "cli/environment.h"
#include "launch/agent.h"
#include "util/log.h"

namespace gputrain {

void add_agent_command(CLI::App& app, Action& action) {
  auto options = std::make_shared<AgentOptions>();
  auto* command = app.add_subcommand("agent", "")->group("");
  command->add_option("--worker", options->worker, "path of gputrain-worker");
  command->callback([&action, options] {
    action = [options] {
      set_up_log("agent");
      options->gpus = host_facts().gpus;
      options->visible_devices = environment_variable("CUDA_VISIBLE_DEVICES").value_or("");
      return run_agent(*options);
    };
  });
}

}  // namespace gputrain

#pragma once
// The command line: one CLI11 tree, one cmd_*.cpp a command.
#include <functional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "spec/spec.h"

namespace gputrain {

// The command chosen by parse; set by each command's callback, run after parsing succeeded. Returns the exit code.
using Action = std::function<int()>;

// A flag that may also be given as GPUTRAIN_<NAME>, and overrides a key of the spec. Precedence flag > env > file.
struct SpecFlag {
  std::string flag;  // "--nproc-per-node"
  std::string key;   // "launch.nproc_per_node"
  std::string help;
  std::string value;  // as given on the command line
  CLI::Option* option = nullptr;
};

// The overrides of a command line: environment first, then flags, then --set.
std::vector<Override> overrides_of(const std::vector<SpecFlag>& flags, const std::vector<std::string>& sets);
// --hosts a,b is launch.hosts: [a, b].
void bracket_hosts(std::vector<Override>& overrides);
// GPUTRAIN_NPROC_PER_NODE for --nproc-per-node.
std::string environment_name(const std::string& flag);
// Adds a flag whose variable overrides_of() reads, so that the origin of its value is known.
void add_spec_flag(CLI::App& command, SpecFlag& flag);
// Gives every other option of the command its variable (CLI11 reads it when the flag is absent), once the command is
// the chosen one: no other command's variable is looked at.
void apply_environment(CLI::App& command, const std::vector<SpecFlag>& spec_flags = {});

// One line for each GPUTRAIN_* variable that no command knows, with the nearest name that one does.
std::vector<std::string> unknown_variables(const CLI::App& app);

void add_launch_command(CLI::App& app, Action& action);
void add_eval_command(CLI::App& app, Action& action);
void add_spec_commands(CLI::App& app, Action& action);  // validate, explain, schema, init, version
void add_run_commands(CLI::App& app, Action& action);   // status, logs, stop
void add_agent_command(CLI::App& app, Action& action);  // internal

}  // namespace gputrain

#pragma once
// What this process was given from outside: the machine, the environment, the terminal. Only the composition roots read
// these.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "spec/resolve.h"

namespace gputrain {

std::optional<std::string> environment_variable(const std::string& name);
std::vector<std::string> variables_with(std::string_view prefix);  // their names, sorted

// Cores from the affinity mask, GPUs from CUDA_VISIBLE_DEVICES or the driver's device files, the CUDA library beside
// the executable.
HostFacts host_facts();

// Preflight: Error(kEnvironment) when this process and its children may open fewer files than `ranks_of_a_host` need.
void check_open_files(int ranks_of_a_host);

// gputrain-worker: $GPUTRAIN_WORKER, else beside this executable. Not checked here: the agent reports a program that
// cannot start.
std::string worker_program();
std::string this_program();
std::string program_as_typed();  // the first word of the command line, for commands that people copy

// A short private directory for control sockets (a Unix socket's path is limited to 108 bytes):
// $XDG_RUNTIME_DIR/gputrain where that is absolute and below 60 characters, else /tmp/gputrain-<uid>, mode 0700. Throws
// Error(kEnvironment) when somebody else owns it.
std::string control_directory();

bool stderr_is_terminal();

// The file's bytes; Error(kSpec) with its name when it cannot be read.
std::string read_spec_file(const std::string& path);

}  // namespace gputrain

#pragma once
// What `launch` and `eval` show people around the controller, and the checks that need both the spec and an earlier
// run's files.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "monitor/sink.h"
#include "spec/resolve.h"

namespace gputrain {

// Console lines, under a progress bar on a terminal.
std::vector<std::shared_ptr<Sink>> sinks_for_people();

// On stderr before the first process starts: the run in two lines, notices, and the values that were given or
// decided here.
void show_start(const RunPlan& plan, const Spec& spec, const std::vector<Notice>& notices, const std::string& config);

void show_notices(const std::vector<Notice>& notices);  // on stderr

// After a finished run, from its events: newest evaluation, throughput, where checkpoint and logs are, how to go on.
// `command_without(key)`: the command line that started it, without what --set gave to that key.
std::string show_end(const RunPlan& plan, const std::function<std::string(const std::string&)>& command_without);

// Preflight of what this machine must have for the plan. Throws Error(kEnvironment).
void refuse_small_machine(const RunPlan& plan);

// Throws Error(kSpec) when OUTPUT is a directory of something else: a run would replace files there.
void refuse_foreign_output(const RunPlan& plan, const Spec& spec);

// Throws ErrorList when OUTPUT holds checkpoints of a run whose model, data, global batch, ... differ from `plan`: with
// file and line for each item. (The workers check again against the checkpoint itself.)
void refuse_changed_identity(const RunPlan& plan, const Spec& spec);

}  // namespace gputrain

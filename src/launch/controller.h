#pragma once
// The controller: one run from lock to result.json. Owns events.jsonl, result.json, console and control socket.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "monitor/sink.h"
#include "spec/plan.h"
#include "util/json.h"
#include "wire/messages.h"

namespace gputrain {

struct ControllerOptions {
  RunPlan plan;
  std::string spec_text;  // echoed as spec.yaml
  ResumeRequest resume;
  std::string agent_program;                 // path of gputrain, started as `gputrain agent`
  std::string worker_program;                // path of gputrain-worker
  std::string control_directory;             // short private directory for the control socket
  std::vector<std::shared_ptr<Sink>> sinks;  // console, progress bar; events.jsonl is added by the controller
  std::string resume_command;                // shown at the end; "" = gputrain launch OUTPUT/spec.yaml
  bool keep_output = true;                   // false: --smoke
};

// What happened, as in result.json (design section 4).
struct Outcome {
  int exit_code = 0;
  Json result;          // {outcome, exit_code, resumable, culprit{host, rank, pid, signal, code}, error, step, ...}
  std::string summary;  // last thing on the screen: outcome, first cause, log tail, resume command
  bool result_written = false;  // result.json exists (the attempt had a start event)
};

// Runs to the end. Throws Error only for what precedes the first attempt (lock, output directory).
Outcome run_controller(const ControllerOptions& options);

}  // namespace gputrain

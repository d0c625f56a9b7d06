// eval: all ranks evaluate one checkpoint on data.val. Reads the run directory, writes nothing there, takes no lock: a
// live run may go on.
#include <filesystem>
#include <iostream>
#include <memory>

#include "cli/app.h"
#include "cli/environment.h"
#include "cli/scratch.h"
#include "cli/show.h"
#include "launch/controller.h"
#include "spec/resolve.h"
#include "util/error.h"

namespace gputrain {
namespace {

struct EvalFlags {
  std::string config;
  std::vector<std::string> sets;
  std::string checkpoint = "latest";
  std::vector<SpecFlag> spec = {
      {"--hosts", "launch.hosts", "hosts and ranks on them", "", nullptr},
      {"--nproc-per-node", "launch.nproc_per_node", "ranks on each host, or auto", "", nullptr},
  };
};

std::string checkpoint_path(const std::string& which, const RunPlan& plan) {
  if (which == "latest" || which == "best") return plan.output + "/checkpoints/" + which;
  if (which.empty()) throw Error(ErrorKind::kUsage, "--checkpoint is latest, best, or a checkpoint directory");
  return std::filesystem::absolute(which).lexically_normal();
}

int evaluate(const EvalFlags& flags) {
  auto overrides = overrides_of(flags.spec, flags.sets);
  bracket_hosts(overrides);
  const std::string text = read_spec_file(flags.config);
  const Spec spec = parse_spec({text, flags.config, overrides});
  std::vector<Notice> notices;
  RunPlan plan = resolve(spec, host_facts(), &notices);
  if (!plan.data.val) {
    throw spec.error_at("data.val", "this configuration has no validation data", ErrorKind::kSpec,
                        "add data.val to evaluate on");
  }
  refuse_small_machine(plan);
  show_notices(notices);
  const ScratchDirectory scratch;
  ControllerOptions options;
  options.resume = {"eval", checkpoint_path(flags.checkpoint, plan)};
  plan.output = scratch.output();
  options.plan = plan;
  options.spec_text = text;
  options.agent_program = this_program();
  options.worker_program = worker_program();
  options.control_directory = control_directory();
  options.keep_output = false;
  const Outcome outcome = run_controller(options);
  if (outcome.exit_code != 0) {
    std::cerr << outcome.summary;
    return outcome.exit_code;
  }
  Json report{{"step", outcome.result["step"]}};
  report.update(outcome.result["final"]);
  std::cout << report.dump(2) << "\n";
  return 0;
}

}  // namespace

void add_eval_command(CLI::App& app, Action& action) {
  auto flags = std::make_shared<EvalFlags>();
  auto* command = app.add_subcommand("eval", "Evaluate a checkpoint on data.val; JSON on stdout, nothing is written");
  command->add_option("CONFIG", flags->config, "the YAML file of the run")->required();
  command->add_option("--set", flags->sets, "override a value of the spec: key=value (repeatable)")
      ->allow_extra_args(false);
  for (auto& flag : flags->spec) add_spec_flag(*command, flag);
  command->add_option("--checkpoint", flags->checkpoint, "latest, best, or a checkpoint directory")
      ->capture_default_str();
  apply_environment(*command, flags->spec);
  command->callback([&action, flags] { action = [flags] { return evaluate(*flags); }; });
}

}  // namespace gputrain

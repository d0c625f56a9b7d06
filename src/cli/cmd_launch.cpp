// launch: spec + flags -> plan -> controller; --dry-run and --smoke are two ways to rehearse it.
#include <filesystem>
#include <iostream>
#include <memory>

#include "cli/app.h"
#include "cli/environment.h"
#include "cli/scratch.h"
#include "cli/show.h"
#include "launch/controller.h"
#include "launch/outcome.h"
#include "spec/dry_run.h"
#include "spec/resolve.h"
#include "util/error.h"
#include "util/text.h"

namespace gputrain {
namespace {

struct LaunchFlags {
  std::string config;
  std::vector<std::string> sets;
  std::string resume = "auto";
  bool dry_run = false;
  bool smoke = false;
  bool json = false;
  std::vector<SpecFlag> spec = {
      {"--hosts", "launch.hosts", "hosts and ranks on them, e.g. local,local or local:4", "", nullptr},
      {"--nproc-per-node", "launch.nproc_per_node", "ranks on each host, or auto", "", nullptr},
      {"--max-restarts", "launch.max_restarts", "restarts since the last new checkpoint", "", nullptr},
      {"--grace", "launch.grace", "time to save when asked to stop, e.g. 30s", "", nullptr},
  };
};

// The spec that the flags describe. Without CONFIG only --smoke is possible.
Spec read_spec(const LaunchFlags& flags) {
  auto overrides = overrides_of(flags.spec, flags.sets);
  bracket_hosts(overrides);
  if (flags.config.empty()) {
    if (!flags.smoke)
      throw Error(ErrorKind::kUsage, "launch needs CONFIG (only --smoke goes without)", "",
                  "`gputrain init` prints an example");
    if (!overrides.empty()) throw Error(ErrorKind::kUsage, overrides.front().name + " needs a CONFIG to change");
    return smoke_spec(nullptr);
  }
  const Spec spec = parse_spec({read_spec_file(flags.config), flags.config, overrides});
  return flags.smoke ? smoke_spec(&spec) : spec;
}

// The same command line again, for people to copy; quoted for a shell where that is needed. Without what --set gave to
// `replaced`, a key.
std::string command_text(const LaunchFlags& flags, const std::string& replaced = "") {
  std::string text = shell_quoted(program_as_typed()) + " launch " + shell_quoted(flags.config);
  for (const auto& flag : flags.spec) {
    if (flag.option->count() > 0) text += " " + flag.flag + " " + shell_quoted(flag.value);
  }
  for (const auto& set : flags.sets) {
    if (parse_set(set).key != replaced) text += " --set " + shell_quoted(set);
  }
  return text;
}

ResumeRequest resume_request(const std::string& word) {
  if (word == "auto" || word == "never") return {word, ""};
  if (word.empty()) throw Error(ErrorKind::kUsage, "--resume is auto, never, or the path of a checkpoint");
  return {"path", std::filesystem::absolute(word).lexically_normal()};
}

int report(const Outcome& outcome, bool json) {
  if (!outcome.summary.empty()) std::cerr << outcome.summary << (outcome.summary.back() == '\n' ? "" : "\n");
  if (json) std::cout << outcome.result.dump(2) << "\n";
  return outcome.exit_code;
}

int launch(const LaunchFlags& flags) {
  const Spec spec = read_spec(flags);
  std::vector<Notice> notices;
  RunPlan plan = resolve(spec, host_facts(), &notices);
  if (!flags.dry_run) refuse_small_machine(plan);
  if (!flags.smoke) refuse_foreign_output(plan, spec);
  if (flags.dry_run) {
    if (flags.smoke) plan.output = "a temporary directory";
    std::cout << (flags.json ? dry_run_json(plan, spec, notices).dump(2) + "\n" : render_dry_run(plan, spec, notices));
    return 0;
  }
  std::unique_ptr<ScratchDirectory> scratch;
  if (flags.smoke) {
    scratch = std::make_unique<ScratchDirectory>();
    plan.output = scratch->output();
  }
  const ResumeRequest resume = resume_request(flags.resume);
  if (resume.mode == "auto") refuse_changed_identity(plan, spec);

  ControllerOptions options;
  options.plan = plan;
  options.spec_text = to_yaml(spec);
  options.resume = resume;
  options.agent_program = this_program();
  options.worker_program = worker_program();
  options.control_directory = control_directory();
  options.sinks = sinks_for_people();
  options.keep_output = !flags.smoke;
  options.resume_command = command_text(flags);
  show_start(plan, spec, notices, flags.config);
  const Outcome outcome = run_controller(options);
  const int code = report(outcome, flags.json);
  if (code == 0 && !flags.smoke)
    std::cerr << show_end(plan, [&](const std::string& key) { return command_text(flags, key); });
  return code;
}

// With --json, what was refused before an attempt is an object too; people's text stays on stderr.
int launch_or_json(const LaunchFlags& flags) {
  if (!flags.json || flags.dry_run) return launch(flags);
  const auto print = [](const Error& error) {
    const int code = static_cast<int>(exit_code(error.kind));
    const auto row = find_exit_code(code);
    std::cout << Json{{"outcome", row ? std::string(row->word) : "failed"},
                      {"exit_code", code},
                      {"resumable", false},
                      {"error", error_json(WireError{error.kind, error.message, error.where, error.hint})}}
                     .dump(2)
              << "\n";
  };
  try {
    return launch(flags);
  } catch (const ErrorList& list) {
    print(list.errors.front());
    throw;
  } catch (const Error& error) {
    print(error);
    throw;
  }
}

}  // namespace

void add_launch_command(CLI::App& app, Action& action) {
  auto flags = std::make_shared<LaunchFlags>();
  auto* command = app.add_subcommand("launch", "Train: start, supervise and resume a run");
  command->add_option("CONFIG", flags->config, "the YAML file (see `gputrain init`)");
  command->add_option("--set", flags->sets, "override a value of the spec: key=value (repeatable)")
      ->allow_extra_args(false);
  for (auto& flag : flags->spec) add_spec_flag(*command, flag);
  command
      ->add_option(
          "--resume", flags->resume,
          "auto: continue from the newest verified checkpoint; never: move old ones aside; or a checkpoint's path")
      ->capture_default_str();
  command->add_flag("--dry-run", flags->dry_run,
                    "show who would run where and where each value came from; start nothing");
  command->add_flag("--smoke", flags->smoke,
                    "two ranks, three steps of the model on synthetic data in a temporary directory; for CI");
  command->add_flag("--json", flags->json, "print the result (or the dry run) as JSON on stdout");
  apply_environment(*command, flags->spec);
  command->callback([&action, flags] { action = [flags] { return launch_or_json(*flags); }; });
}

}  // namespace gputrain

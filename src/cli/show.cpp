#include "cli/show.h"

#include <filesystem>
#include <iostream>
#include <map>

#include <unistd.h>

#include "cli/environment.h"
#include "monitor/console.h"
#include "monitor/progress_bar.h"
#include "spec/dry_run.h"
#include "sys/fs.h"
#include "util/error.h"
#include "util/text.h"

namespace gputrain {
namespace {

std::string ranks_text(const RunPlan& plan) {
  const auto& launch = plan.launch;
  const bool gpus = !launch.hosts.empty() && !launch.hosts.front().gpus.empty();
  return plural(launch.world_size, "rank") + " on " + plural(static_cast<int64_t>(launch.hosts.size()), "host") + ", " +
         (gpus ? "GPU over NCCL" : "CPU over Gloo, " + plural(launch.omp_threads, "thread") + " each");
}

}  // namespace

std::vector<std::shared_ptr<Sink>> sinks_for_people() {
  const bool terminal = stderr_is_terminal();
  std::vector<std::shared_ptr<Sink>> sinks;
  if (terminal) sinks.push_back(std::make_shared<ProgressBar>(ProgressBarOptions{.fd = STDERR_FILENO}));
  sinks.push_back(
      std::make_shared<Console>(ConsoleOptions{.fd = STDERR_FILENO, .terminal = terminal, .steps = !terminal}));
  return sinks;
}

void show_start(const RunPlan& plan, const Spec& spec, const std::vector<Notice>& notices, const std::string& config) {
  std::cerr << "gputrain: " << plan.name << ": " << plan.model.name << ", " << ranks_text(plan) << "\n";
  std::cerr << "output " << plan.output << (config.empty() ? "" : ", spec " + config) << "\n";
  std::cerr << render_settings(spec);
  for (const auto& notice : notices) std::cerr << "notice: " << notice.text << "\n";
  std::cerr.flush();
}

void refuse_changed_identity(const RunPlan& plan, const Spec& spec) {
  FileSystem& fs = real_file_system();
  const std::string before = plan.output + "/plan.json";
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(before, ignored) || fs.list(plan.output + "/checkpoints").empty()) return;
  Json identity;
  try {
    identity = identity_of(run_plan_from_json(parse_json(fs.read(before), before)));
  } catch (const Error&) {
    return;  // written by another version, or torn: the workers compare with the checkpoint itself
  }
  auto errors = compare_for_resume(identity, plan, spec);
  if (!errors.empty()) throw ErrorList(std::move(errors));
}

}  // namespace gputrain

#include "cli/show.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <iostream>

#include <unistd.h>

#include "cli/environment.h"
#include "launch/run_directory.h"
#include "monitor/console.h"
#include "monitor/journal_reader.h"
#include "monitor/progress_bar.h"
#include "monitor/record.h"
#include "spec/dry_run.h"
#include "sys/fs.h"
#include "util/error.h"
#include "util/foreign_json.h"
#include "util/text.h"

namespace gputrain {
namespace {

std::string ranks_text(const RunPlan& plan) {
  const auto& launch = plan.launch;
  const bool gpus = !launch.hosts.empty() && !launch.hosts.front().gpus.empty();
  return plural(launch.world_size, "rank") + " on " + plural(static_cast<int64_t>(launch.hosts.size()), "host") + ", " +
         (gpus ? "GPU over NCCL" : "CPU over Gloo, " + plural(launch.omp_threads, "thread") + " each");
}

constexpr int64_t kFactsTail = int64_t{8} << 20;  // some 15000 steps: enough for a median, read in a moment

// What the end of a run says, read back from the end of events.jsonl.
struct RunFacts {
  Json evaluation, checkpoint;        // newest records; null when there is none
  std::vector<double> samples_per_s;  // of the newest attempt's step records
  std::vector<double> mfu;            // the same; none where it is not known
  bool stopped_early = false;
};

RunFacts read_facts(const std::string& output) {
  RunFacts facts;
  const auto take = [&](std::string_view line) {
    Json record = parse_foreign_json(line);
    const std::string kind = record.is_object() ? record.value("kind", "") : "";
    if (kind == "start") {
      facts.samples_per_s.clear();
      facts.mfu.clear();
    } else if (kind == "step") {
      facts.samples_per_s.push_back(number_from_json(record["samples_per_s"]));
      if (const auto mfu = step_record_from_json(record).mfu) facts.mfu.push_back(*mfu);
    } else if (kind == "eval") {
      facts.evaluation = std::move(record);
    } else if (kind == "checkpoint") {
      facts.checkpoint = std::move(record);
    } else if (kind == "end") {
      facts.stopped_early = record.contains("stopped_early");
    }
  };
  read_tail(real_file_system(), output + "/events.jsonl", take, kFactsTail);
  return facts;
}

double median(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::string throughput_text(RunFacts& facts) {
  char mfu[32] = "n/a";
  if (!facts.mfu.empty()) std::snprintf(mfu, sizeof mfu, "%.1f%%", 100 * median(facts.mfu));
  return format_number(std::round(median(facts.samples_per_s))) + " samples/s, MFU " + mfu + " (medians over steps)";
}

std::string evaluation_text(const Json& record) {
  std::string text = "step " + dump_line(record["step"]);
  for (const auto& [name, value] : record.items()) {
    if (value.is_number_float() && name != "mono_s" && name != "seconds") {
      text += ", " + name + " " + format_number(value.get<double>());
    }
  }
  return text;
}

// The limit that ended the run, doubled: {"train.epochs", 10}.
std::optional<std::pair<std::string, int64_t>> twice_as_long(const RunPlan& plan, const RunFacts& facts) {
  if (facts.stopped_early) return {{"early_stopping.patience", 2 * plan.early_stopping.patience}};
  const TrainPlan& train = plan.train;
  const int64_t step = facts.checkpoint.is_object() ? facts.checkpoint.value("step", int64_t{0}) : 0;
  if (train.max_steps && (!train.epochs || step >= *train.max_steps))
    return {{"train.max_steps", 2 * *train.max_steps}};
  if (train.epochs) return {{"train.epochs", 2 * *train.epochs}};
  return std::nullopt;
}

}  // namespace

std::string show_end(const RunPlan& plan, const std::function<std::string(const std::string&)>& command_without) {
  RunFacts facts = read_facts(plan.output);
  std::vector<std::vector<std::string>> rows;
  if (facts.evaluation.is_object()) rows.push_back({"  validation", evaluation_text(facts.evaluation)});
  if (!facts.samples_per_s.empty()) rows.push_back({"  throughput", throughput_text(facts)});
  if (facts.checkpoint.is_object()) {  // by its name: the run directory may have been copied or moved since
    const std::filesystem::path written = facts.checkpoint.value("path", "");
    rows.push_back({"  checkpoint", plan.output + "/checkpoints/" + written.filename().string()});
  }
  rows.push_back({"  logs", plan.output + "/logs, records in " + plan.output + "/events.jsonl"});
  if (const auto longer = twice_as_long(plan, facts)) {
    const auto& [key, value] = *longer;
    rows.push_back({"  continue", command_without(key) + " --set " + key + "=" + std::to_string(value)});
  }
  return render_table(rows);
}

std::vector<std::shared_ptr<Sink>> sinks_for_people() {
  const bool terminal = stderr_is_terminal();
  std::vector<std::shared_ptr<Sink>> sinks;
  if (terminal) sinks.push_back(std::make_shared<ProgressBar>(ProgressBarOptions{.fd = STDERR_FILENO}));
  sinks.push_back(
      std::make_shared<Console>(ConsoleOptions{.fd = STDERR_FILENO, .terminal = terminal, .steps = !terminal}));
  return sinks;
}

void show_start(const RunPlan& plan, const Spec& spec, const std::vector<Notice>& notices, const std::string& config) {
  std::cerr << "gputrain: " << plan.name << ": " << plan.model.title() << ", " << ranks_text(plan) << "\n";
  std::cerr << "output " << plan.output << (config.empty() ? "" : ", spec " + config) << "\n";
  std::cerr << render_chosen_settings(spec, plan);
  show_notices(notices);
}

void show_notices(const std::vector<Notice>& notices) {
  for (const auto& notice : notices) std::cerr << "notice: " << notice.text << "\n";
}

void refuse_small_machine(const RunPlan& plan) {
  int ranks = 0;
  for (const auto& host : plan.launch.hosts) ranks = std::max(ranks, host.slots);
  check_open_files(ranks);
}

void refuse_foreign_output(const RunPlan& plan, const Spec& spec) {
  const std::string entry = foreign_entry(real_file_system(), plan.output);
  if (entry.empty()) return;
  throw spec.error_at("output",
                      "the directory is not a run's: " + printable(entry) + " in " + plan.output + " would be replaced",
                      ErrorKind::kSpec, "choose a new or empty directory");
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

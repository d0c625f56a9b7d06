#include "spec/fields.h"

#include <iterator>
#include <utility>

#include "spec/field_rows.h"
#include "util/error.h"

namespace gputrain {
namespace {

using Type = FieldType;
using Rows = FieldRows;

Rows run_rows() {
  return {
      {.key = "name",
       .type = Type::kText,
       .fallback = {},
       .help = "Name of the run, without slashes. Also the default of output."},
      {.key = "output",
       .type = Type::kPath,
       .fallback = "runs/<name>",
       .help = "Run directory: checkpoints, logs, metrics. Launching again with the same directory continues an "
               "unfinished run. It must be new, empty or a run's. "
               "Relative to the working directory; ~ is not expanded."},
      {.key = "seed",
       .type = Type::kInt,
       .fallback = "1",
       .help = "Decides initial weights, order of samples, dropout and augmentation.",
       .on_resume = OnResume::kSame,
       .least = 0},
  };
}

Rows launch_rows() {
  return {
      {.key = "launch.hosts",
       .type = Type::kHosts,
       .fallback = "[local]",
       .help = "Where to train. local is this machine, local:N with N ranks; [local, local] starts two agents that "
               "divide cores and GPUs "
               "evenly. Hosts over ssh are not supported yet."},
      {.key = "launch.nproc_per_node",
       .type = Type::kInt,
       .fallback = "auto",
       .unit = "ranks",
       .help = "Training processes on each host. auto: all GPUs; without GPUs two CPU ranks (one where there is one "
               "core), divided among "
               "agents on one machine.",
       .words = {"auto"},
       .least = 1,
       .most = 4096},
      {.key = "launch.backend",
       .type = Type::kChoice,
       .fallback = "auto",
       .help = "How ranks exchange gradients. auto: nccl with GPUs, gloo without. gloo trains on the CPU.",
       .words = {"auto", "nccl", "gloo"}},
      {.key = "launch.grace",
       .type = Type::kDuration,
       .fallback = "30s",
       .help = "Time from a stop request to the end of the last rank; the state is saved within it.",
       .least = 0,
       .above = true},
      {.key = "launch.max_restarts",
       .type = Type::kInt,
       .fallback = "2",
       .help = "Restarts after failures since the last new checkpoint step. Preemptions are counted apart.",
       .least = 0,
       .most = 1000000},
      {.key = "launch.max_duration",
       .type = Type::kDuration,
       .fallback = "none",
       .help = "End the run (exit code 124) after this time.",
       .words = {"none"},
       .least = 0,
       .above = true},
      {.key = "launch.omp_threads",
       .type = Type::kInt,
       .fallback = "auto",
       .unit = "threads",
       .help = "CPU threads inside one operation, for each rank. auto: cores / ranks of the host, at least 1.",
       .words = {"auto"},
       .least = 1,
       .most = 4096},
      {.key = "launch.lease",
       .type = Type::kDuration,
       .fallback = "2s",
       .help = "An agent that hears no controller for this long kills its ranks; a host is lost after 1.5 leases of "
               "silence.",
       .least = 0.5,
       .advanced = true},
  };
}

}  // namespace

std::span<const Field> fields() {
  static const Rows rows = [] {
    Rows all;
    for (auto part : {run_rows, launch_rows, model_rows, first_weight_rows, data_rows, loss_rows, train_rows,
                      numeric_rows, optimizer_rows, record_rows}) {
      Rows more = part();
      all.insert(all.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
    }
    return all;
  }();
  return rows;
}

const Field* find_field(std::string_view key) {
  for (const auto& field : fields()) {
    if (field.key == key) return &field;
  }
  return nullptr;
}

std::string_view section_help(std::string_view section) {
  static constexpr std::pair<std::string_view, std::string_view> kSections[] = {
      {"launch", "Where and with how many processes; free to change when a run is continued."},
      {"model", "What is trained."},
      {"data", "What it is trained on."},
      {"data.transforms", "What happens to a sample between file and model."},
      {"loss", "What is made small."},
      {"train", "Length, batch sizes and number format."},
      {"optimizer", "How gradients change weights."},
      {"schedule", "The learning rate over time."},
      {"evaluate", "Measuring on data.val."},
      {"early_stopping", "Ending a run that no longer improves."},
      {"checkpoint", "Saving the state of training."},
      {"log", "Records of progress."},
  };
  for (const auto& [name, help] : kSections) {
    if (name == section) return help;
  }
  return "";
}

std::string_view to_string(OnResume value) {
  switch (value) {
    case OnResume::kSame:
      return "must stay the same when a run is continued";
    case OnResume::kMayChange:
      return "may change when a run is continued; the change is listed";
    case OnResume::kFree:
      return "free to change when a run is continued";
  }
  GP_CHECK(false, "unknown OnResume");
}

}  // namespace gputrain

#include "spec/fields.h"

#include <iterator>
#include <utility>

#include "util/error.h"

namespace gputrain {
namespace {

using Type = FieldType;
using Rows = std::vector<Field>;

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

Rows model_rows() {
  return {
      {.key = "model.name",
       .type = Type::kName,
       .fallback = {},
       .help = "The model to train.",
       .on_resume = OnResume::kSame,
       .catalog_kind = CatalogKind::kModel},
      {.key = "model.args",
       .type = Type::kArguments,
       .fallback = "{}",
       .help = "Arguments of the model: gputrain explain NAME lists them.",
       .on_resume = OnResume::kSame,
       .catalog_kind = CatalogKind::kModel},
      {.key = "task",
       .type = Type::kChoice,
       .fallback = "classification",
       .help = "What the model learns; decides loss and metrics. This version supports classification.",
       .on_resume = OnResume::kSame,
       .words = {"classification"}},
  };
}

Rows data_rows() {
  return {
      {.key = "data.train",
       .type = Type::kSource,
       .fallback = {},
       .help =
           "Samples to train on: {format: NAME, arguments...}. Relative paths are relative to the working directory.",
       .on_resume = OnResume::kSame,
       .catalog_kind = CatalogKind::kFormat},
      {.key = "data.val",
       .type = Type::kSource,
       .fallback = "none",
       .help = "Samples to evaluate on, as data.train.",
       .on_resume = OnResume::kMayChange,
       .words = {"none"},
       .catalog_kind = CatalogKind::kFormat,
       .optional_section = true},
      {.key = "data.transforms.train",
       .type = Type::kTransforms,
       .fallback = "[]",
       .help = "Applied to each training sample, in this order: a list of NAME or {NAME: {arguments...}}.",
       .on_resume = OnResume::kMayChange,
       .catalog_kind = CatalogKind::kTransform},
      {.key = "data.transforms.val",
       .type = Type::kTransforms,
       .fallback = "[]",
       .help = "Applied to each evaluation sample, in this order.",
       .on_resume = OnResume::kMayChange,
       .catalog_kind = CatalogKind::kTransform},
      {.key = "data.tail",
       .type = Type::kChoice,
       .fallback = "use",
       .help = "The short last global batch of an epoch: use it (its loss is divided by its own count) or drop it.",
       .on_resume = OnResume::kSame,
       .words = {"use", "drop"}},
      {.key = "data.workers",
       .type = Type::kInt,
       .fallback = "auto",
       .unit = "threads",
       .help = "Threads that read and decode, for each rank; 0 decodes in the training thread. auto: cores / ranks - "
               "1, from 1 to 4.",
       .words = {"auto"},
       .least = 0,
       .most = 256},
      {.key = "data.prefetch",
       .type = Type::kInt,
       .fallback = "4",
       .unit = "micro-batches",
       .help = "How many decoded micro-batches a rank keeps ready.",
       .least = 1,
       .most = 1024},
      {.key = "data.pin_memory",
       .type = Type::kBool,
       .fallback = "auto",
       .help = "Page-locked host memory for faster copies to a GPU. auto: with GPUs.",
       .words = {"auto"}},
  };
}

Rows train_rows() {
  const auto may_change = OnResume::kMayChange;
  return {
      {.key = "train.epochs",
       .type = Type::kInt,
       .fallback = "none",
       .help =
           "Passes over data.train. With max_steps too, the first limit reached ends the run; one of them is needed.",
       .on_resume = may_change,
       .words = {"none"},
       .least = 1,
       .most = 1e9},
      {.key = "train.max_steps",
       .type = Type::kInt,
       .fallback = "none",
       .unit = "optimizer steps",
       .help = "Global batches to train on, whatever the number of ranks and micro-batches.",
       .on_resume = may_change,
       .words = {"none"},
       .least = 1},
      {.key = "train.global_batch",
       .type = Type::kInt,
       .fallback = {},
       .unit = "samples",
       .help = "Samples for one optimizer step, over all ranks and micro-batches: results do not depend on the number "
               "of ranks.",
       .on_resume = OnResume::kSame,
       .least = 1,
       .most = 1 << 30},
      {.key = "train.micro_batch",
       .type = Type::kInt,
       .fallback = "auto",
       .unit = "samples",
       .help = "Samples of one forward and backward pass on one rank; less memory, the same global batch. auto: the "
               "rank's whole "
               "share.",
       .on_resume = may_change,
       .words = {"auto"},
       .least = 1,
       .most = 1 << 30},
  };
}

Rows numeric_rows() {
  const auto may_change = OnResume::kMayChange;
  return {
      {.key = "train.precision",
       .type = Type::kChoice,
       .fallback = "fp32",
       .help = "Number format of the forward and backward pass: bf16 and fp16 (with loss scaling) by autocast, tf32 in "
               "matrix products only.",
       .on_resume = OnResume::kSame,
       .words = {"fp64", "fp32", "tf32", "bf16", "fp16"}},
      {.key = "train.clip_grad_norm",
       .type = Type::kFloat,
       .fallback = "none",
       .help = "Scale gradients down to this norm over all parameters when they exceed it.",
       .on_resume = may_change,
       .words = {"none"},
       .least = 0,
       .above = true},
      {.key = "train.deterministic",
       .type = Type::kBool,
       .fallback = "false",
       .help = "Use only algorithms that give the same bits each time; slower on GPUs.",
       .on_resume = may_change},
      {.key = "train.reducer",
       .type = Type::kChoice,
       .fallback = "c10d",
       .help = "How gradients are summed: c10d overlaps buckets with the backward pass; flat is the plain reference "
               "for tests.",
       .words = {"c10d", "flat"},
       .advanced = true},
  };
}

Rows optimizer_rows() {
  const auto may_change = OnResume::kMayChange;
  return {
      {.key = "optimizer.name",
       .type = Type::kName,
       .fallback = "adamw",
       .help = "The optimizer; its arguments stand beside it.",
       .on_resume = may_change,
       .catalog_kind = CatalogKind::kOptimizer},
      {.key = "schedule.name",
       .type = Type::kName,
       .fallback = "constant",
       .help = "Learning rate over time, as a factor of optimizer.lr; its arguments stand beside it.",
       .on_resume = may_change,
       .catalog_kind = CatalogKind::kSchedule},
      {.key = "schedule.warmup",
       .type = Type::kLength,
       .fallback = "none",
       .help = "The factor rises in a straight line from warmup_start to 1 over this length.",
       .on_resume = may_change,
       .words = {"none"}},
      {.key = "schedule.warmup_start",
       .type = Type::kFloat,
       .fallback = "0",
       .help = "Factor at the first step of the warm-up.",
       .on_resume = may_change,
       .least = 0,
       .most = 1},
      {.key = "schedule.granularity",
       .type = Type::kChoice,
       .fallback = "step",
       .help = "Change the learning rate at each step, or at each epoch only (then a part of an epoch of warm-up "
               "counts as a whole one).",
       .on_resume = may_change,
       .words = {"step", "epoch"}},
  };
}

Rows record_rows() {
  return {
      {.key = "evaluate.every",
       .type = Type::kEvery,
       .fallback = "auto",
       .help = "When to evaluate on data.val; also at the end. auto: 1 epoch with data.val, else never.",
       .on_resume = OnResume::kMayChange,
       .words = {"auto"}},
      {.key = "checkpoint.every",
       .type = Type::kEvery,
       .fallback = "10m",
       .help = "When to save; the last step always saves. Times are by the first rank's clock."},
      {.key = "checkpoint.keep_last",
       .type = Type::kInt,
       .fallback = "3",
       .unit = "checkpoints",
       .help = "Older checkpoints are deleted once a newer one is verified.",
       .least = 1,
       .most = 1000000},
      {.key = "checkpoint.keep_best",
       .type = Type::kName,
       .fallback = "none",
       .help = "Also keep the checkpoint with the best value of this metric; an evaluation that improves it saves.",
       .words = {"none"},
       .catalog_kind = CatalogKind::kMetric},
      {.key = "log.every",
       .type = Type::kEvery,
       .fallback = "auto",
       .help = "How often a step is reported. auto: every step without a GPU, else once a second. events.jsonl has "
               "every report, the console at most one a second.",
       .words = {"auto"}},
  };
}

}  // namespace

std::span<const Field> fields() {
  static const Rows rows = [] {
    Rows all;
    for (auto part :
         {run_rows, launch_rows, model_rows, data_rows, train_rows, numeric_rows, optimizer_rows, record_rows}) {
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
      {"train", "Length, batch sizes and number format."},
      {"optimizer", "How gradients change weights."},
      {"schedule", "The learning rate over time."},
      {"evaluate", "Measuring on data.val."},
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

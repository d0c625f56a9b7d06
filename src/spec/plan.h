#pragma once
// RunPlan: the spec, resolved: defaults filled, paths absolute, "auto" decided. Immutable; written as plan.json; what
// every worker gets.
//
// Reading order for newcomers: this file first. Values that depend on the data (steps per epoch) are not here: workers
// derive them.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "util/json.h"
#include "util/units.h"

namespace gputrain {

enum class Precision { kFp64, kFp32, kTf32, kBf16, kFp16 };
enum class Backend { kGloo, kNccl };
enum class Granularity { kStep, kEpoch };
enum class Tail { kUse, kDrop };
enum class Task { kClassification, kLanguageModel, kSegmentation, kRegression };

// Something named in the catalog with its arguments (all of them: defaults filled in): a model, transform, optimizer,
// schedule.
struct Named {
  std::string name;
  Json args = Json::object();
  bool operator==(const Named&) const = default;
};

// When something recurring happens: at least one field set, or none for "never".
struct Every {
  std::optional<Length> length;          // 500 steps, 1 epoch
  std::optional<Milliseconds> duration;  // 10m, by rank 0's monotonic clock
  bool never() const { return !length && !duration; }
  bool operator==(const Every&) const = default;
};

struct HostPlan {
  std::string name;       // "local", or what ssh gets
  int slots = 0;          // ranks on this host
  std::vector<int> gpus;  // device index of each slot; empty on CPU
  int cores = 0;          // CPU cores this agent may use
};

struct LaunchPlan {
  std::vector<HostPlan> hosts;
  int world_size = 1;
  Backend backend = Backend::kGloo;
  int omp_threads = 1;        // intra-op threads of each rank
  Milliseconds grace{30000};  // from stop intent to the end of the last rank
  int max_restarts = 2;
  std::optional<Milliseconds> max_duration;
  Milliseconds lease{2000};
};

// Exactly one of name, torchscript and plugin is set.
struct ModelPlan {
  std::string name;              // catalog name
  Json args = Json::object();    // a plug-in's: what stands in the spec, unchecked
  std::string torchscript = {};  // absolute path of a module saved by torch.jit.save
  std::string plugin = {};       // absolute path of a library made with gputrain/plugin.h
  std::string init = {};         // absolute path of a safetensors file with first weights; "" = random ones
  bool init_strict = true;       // every tensor of the model and of the file must have its partner
  std::vector<std::string> init_ignore =
      {};                                // patterns (* and ?) of tensor names that init leaves alone, on both sides
  std::vector<std::string> freeze = {};  // patterns of parameter names that are not trained

  // Classes that the model tells apart (its argument num_classes or vocab_size); nullopt: only the model knows.
  std::optional<int64_t> classes() const;
  // For people: the catalog name, or the file's.
  std::string title() const;
};

struct LossPlan {
  double label_smoothing = 0;           // classification, language_model: weight of the uniform distribution
  std::optional<int64_t> ignore_index;  // language_model, segmentation: targets of this value do not count
  double dice_weight = 1;               // segmentation: loss = cross entropy + dice_weight * (1 - Dice)
  std::string distance = "mse";         // regression: mse | l1 | smooth_l1
};

// Samples of a micro-batch mixed with each other: the parameter of the Beta distribution of their shares; 0 = off.
struct MixPlan {
  double mixup = 0;
  double cutmix = 0;
};

// Groups of parameters by rule: whatever optimizer there is.
struct ParameterRules {
  bool decay_norm_and_bias = true;  // false: weight decay only on tensors of two or more dimensions
  struct LrScale {
    std::string pattern;  // of parameter names
    double scale = 1;
    bool operator==(const LrScale&) const = default;
  };
  std::vector<LrScale> lr_scales;  // the first that matches; none: 1
};

// The run ends when `metric` has not improved by more than min_delta over `patience` evaluations.
struct EarlyStoppingPlan {
  std::string metric;  // "" = off
  int patience = 0;
  double min_delta = 0;
  bool larger_is_better = true;  // from the catalog
};

// One data set. `format` is a catalog name; `args` are its resolved arguments: idx {images, labels}; raw {inputs:
// {path, shape, dtype, offset}, targets: {...}}; tokens {path, dtype, context, offset}; synthetic {samples, shape,
// num_classes, targets} (used by --smoke). Paths are absolute.
struct DataSourcePlan {
  std::string format;
  Json args = Json::object();
};

struct DataPlan {
  DataSourcePlan train;
  std::optional<DataSourcePlan> val;
  std::vector<Named> train_transforms;
  std::vector<Named> val_transforms;
  Tail tail = Tail::kUse;
  int workers = 1;          // decode threads of each rank
  int prefetch = 4;         // batches in the ring
  bool pin_memory = false;  // page-locked host memory (only where CUDA is)
};

struct TrainPlan {
  std::optional<int64_t> epochs;  // both limits: the first reached; at least one is set
  std::optional<int64_t> max_steps;
  int64_t global_batch = 0;  // samples per optimizer step, over all ranks and micro-batches
  int64_t micro_batch = 0;   // per rank and forward pass; 0 = the rank's whole share ("auto")
  Precision precision = Precision::kFp32;
  double clip_grad_norm = 0;   // 0 = no clipping
  double clip_grad_value = 0;  // 0 = no clipping; before the norm's
  double ema_decay = 0;        // 0 = no moving average of the weights
  bool channels_last = false;  // memory layout of 4- and 5-dimensional weights and inputs
  bool deterministic = false;
};

struct SchedulePlan {
  std::string name = "constant";  // catalog name
  Length warmup;                  // count 0 = none
  double warmup_start = 0;        // factor at u = 0
  Json args = Json::object();     // of the catalog's entry
  Granularity granularity = Granularity::kStep;
};

struct CheckpointPlan {
  Every every;
  int keep_last = 3;
  std::string keep_best;       // metric name, "" = none
  bool best_is_larger = true;  // from the catalog
};

struct RunPlan {
  std::string name;
  std::string output;  // absolute run directory
  uint64_t seed = 1;
  Task task = Task::kClassification;
  LaunchPlan launch;
  ModelPlan model;
  DataPlan data;
  MixPlan mix;
  LossPlan loss;
  TrainPlan train;
  Named optimizer;  // adamw {lr, weight_decay, betas, eps}, sgd {lr, momentum, nesterov, weight_decay}
  ParameterRules parameters;
  SchedulePlan schedule;
  Every evaluate;
  int top_k = 0;  // classification also reports top_k_accuracy; 0 = not
  EarlyStoppingPlan early_stopping;
  CheckpointPlan checkpoint;
  Every log;                     // duration 1s on GPUs, 1 step on CPU when "auto"
  std::vector<int64_t> profile;  // first and last step to trace; empty = none
  std::string reducer = "c10d";  // c10d | flat (the reference back end, for tests)
  bool smoke = false;            // three steps of synthetic data, no retry
};

Json to_json(const RunPlan& plan);
// Throws Error(kInternal) on a missing or unknown item: both halves are of one version.
RunPlan run_plan_from_json(const Json& json);

std::string_view to_string(Precision);
std::string_view to_string(Backend);
std::string_view to_string(Granularity);
std::string_view to_string(Tail);
std::string_view to_string(Task);

// The items that a checkpoint must agree with on resume (model, task, data formats, global_batch, seed, tail,
// precision): compared item by item, so that the error names what changed. A flat object {"train.global_batch": 256,
// ...}.
Json identity_of(const RunPlan& plan);

}  // namespace gputrain

#pragma once
// What training changes, and how it goes into a checkpoint and back.
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "ckpt/checkpoint.h"
#include "model/model.h"
#include "train/ema.h"
#include "train/grad_scaler.h"
#include "train/optimizer.h"
#include "util/json.h"

namespace gputrain {

// Parameters, frozen ones too, then buffers: all of a model that a checkpoint holds. The tensors themselves.
NamedTensors model_tensors(const Model& model);

struct Counters {
  int64_t step = 0;                 // global batches finished, skipped or not
  int64_t updates = 0;              // optimizer updates applied
  int64_t epoch = 0;                // data position: epoch ...
  int64_t samples_in_epoch = 0;     // ... and samples consumed in it
  int64_t skipped = 0;              // steps without an update (loss scaler)
  int64_t evaluated_at = -1;        // step of the last finished evaluation
  std::optional<double> best;       // best keep_best metric so far; never NaN
  std::optional<double> stop_best;  // early stopping: the best value of its metric so far ...
  int64_t stale_evaluations = 0;    // ... and evaluations since then
  bool operator==(const Counters&) const = default;

  // A global batch of `samples` is done; the epoch ends when `samples_per_epoch` are.
  void finish_step(int64_t samples, int64_t samples_per_epoch, bool was_skipped);
};

struct TrainState {
  std::shared_ptr<Model> model;
  std::unique_ptr<Optimizer> optimizer;
  GradScaler scaler;
  Counters counters;
  std::unique_ptr<Ema> ema = nullptr;  // null = none is kept

  // All named tensors: parameters and buffers first, then optimizer state as "optimizer/<parameter>/<item>". The
  // tensors themselves.
  void visit(const std::function<void(const std::string& name, at::Tensor& tensor)>& visitor) const;
  std::vector<at::Tensor> parameters() const;
  std::vector<at::Tensor> buffers() const;
};

// Everything of state.json besides counters and scaler. No time, host name or path: equal runs write equal files.
struct StateStamp {
  Json identity;         // identity_of(plan): must be equal on resume, else Error(kSpec)
  Json data;             // Source::fingerprint() of the training data: must be equal, else Error(kData)
  Json exactness;        // see exactness.h: a difference is a notice
  Json bucket_layout;    // GradReducer::layout(): restored
  Json optimizer;        // optimizer_items(): another optimizer starts with fresh state, which is a notice
  bool has_ema = false;  // is a moving average saved?
  Json best_of;          // {metric, data} that Counters::best is of, null without keep_best: of another it is forgotten
  Json stop_of;          // the same of early stopping's counters
};

// What the optimizer keeps of each parameter, sorted: ["exp_avg", "exp_avg_sq", "step"]. Names its kind in a
// checkpoint.
Json optimizer_items(const Optimizer& optimizer);

// What a save writes. Tensors are shared with the state, not copied.
CheckpointContent content_of(const TrainState& state, const StateStamp& stamp);

// Copies a verified checkpoint into the state and returns its stamp. Error(kCheckpoint) names every missing, unknown or
// differently shaped tensor and item of state.json; the state is unchanged then. The state of another kind of optimizer
// (stamp.optimizer differs) is left out: the new one starts afresh. A moving average that the checkpoint does not have
// starts from its weights (stamp.has_ema tells).
StateStamp restore(TrainState& state, const LoadedCheckpoint& checkpoint);
// The model's tensors, for evaluation, and the moving average's (`ema` may be null). False: none is saved, or wanted.
bool restore_model(const Model& model, Ema* ema, const LoadedCheckpoint& checkpoint);

// Parses state.json's counters and stamp without tensors. Error(kCheckpoint) when an item is missing, unknown or of
// another type.
struct ParsedState {
  Counters counters;
  Json scaler;
  StateStamp stamp;
};
ParsedState parse_train_state(const Json& json, const std::string& where);

// Throws Error(kSpec) that names each item of the plan that changed, Error(kData) when the data did. `where` is the
// checkpoint's path.
void check_same_run(const StateStamp& saved, const StateStamp& now, const std::string& where);

}  // namespace gputrain

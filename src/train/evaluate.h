#pragma once
// Exact evaluation on all ranks (design section 6.8).
#include <optional>
#include <string>
#include <vector>

#include "data/loader.h"
#include "dist/comm.h"
#include "spec/plan.h"
#include "train/ema.h"
#include "train/metrics.h"
#include "train/objective.h"
#include "train/phase.h"
#include "train/state.h"
#include "train/vote.h"

namespace gputrain {

struct EvaluateOptions {
  std::vector<Named> transforms;
  LoaderOptions loader;  // shard, micro_batch, workers, prefetch, float_type
  Precision precision = Precision::kFp32;
  bool channels_last = false;
  at::Device device = at::kCPU;
};

// Every sample exactly once; sums are reduced over the ranks, then divided once. The model is in eval mode without
// gradients meanwhile; mode and random state are put back. Ranks vote before each batch, so a stop on any rank ends it
// on all. A collective operation; the buffers must be equal on all ranks (see broadcast_buffers).
class Evaluator {
 public:
  struct Parts {
    Model& model;
    const Objective& objective;
    const Ema* ema;        // evaluated too, as "ema_accuracy"; may be null
    const Source& source;  // of the validation data
    Vote& vote;
    PhaseMarker& marker;
    const StopSource& stop;
  };
  Evaluator(const Parts& parts, EvaluateOptions options);
  // `step`: whose state is evaluated, for the progress page. nullopt: stopped.
  std::optional<Metrics> run(int64_t step);

 private:
  std::optional<Metrics> run_once(const std::string& where);
  bool add_all(Loader& loader, at::Tensor& sums, const std::string& where);
  void add(const Batch& batch, at::Tensor& sums);
  bool stop_agreed();

  Parts parts_;
  EvaluateOptions options_;
};

// Rank 0's buffers on every rank: before each evaluation and save.
void broadcast_buffers(Comm& gradients, const TrainState& state);

}  // namespace gputrain

#pragma once
// Exact evaluation on all ranks (design section 6.8).
#include <memory>
#include <optional>
#include <string>

#include "data/loader.h"
#include "spec/plan.h"
#include "train/phase.h"
#include "train/state.h"
#include "train/vote.h"

namespace gputrain {

struct Evaluation {
  double loss = 0;                // mean over all samples
  Json metrics = Json::object();  // {"accuracy": 0.91}
  int64_t samples = 0;
};

struct EvaluateOptions {
  std::vector<Named> transforms;
  LoaderOptions loader;  // shard, micro_batch > 0, workers, prefetch, float_type
  Precision precision = Precision::kFp32;
  at::Device device = at::kCPU;
};

// Every sample exactly once; sums and counts are reduced, then divided once. Puts the model into eval mode without
// gradients and restores mode and random state. Ranks vote before each batch, padded to equal counts, so that a stop is
// seen: nullopt = stopped, on every rank. All ranks call it; the buffers must be equal on all of them (see
// broadcast_buffers).
class Evaluator {
 public:
  struct Parts {
    Model& model;
    const Source& source;  // of the validation data; outlives the evaluator
    Vote& vote;
    PhaseMarker& marker;
    const StopSource& stop;
  };
  Evaluator(const Parts& parts, EvaluateOptions options);
  // `step`: whose state is evaluated, for the progress page.
  std::optional<Evaluation> run(int64_t step);

 private:
  bool run_batches(Loader& loader, class MetricSums& sums);

  Parts parts_;
  EvaluateOptions options_;
};

// Rank 0's buffers on every rank: before each evaluation and save.
void broadcast_buffers(Comm& gradients, const TrainState& state);

}  // namespace gputrain

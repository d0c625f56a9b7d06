#pragma once
// The training loop: vote, step, log, evaluate, save, until the planned end or an orderly stop.
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "data/loader.h"
#include "dist/comm.h"
#include "monitor/record.h"
#include "train/early_stopping.h"
#include "train/evaluate.h"
#include "train/record_channel.h"
#include "train/saver.h"
#include "train/state.h"
#include "train/step_log.h"
#include "train/step_runner.h"
#include "train/stop_source.h"
#include "train/trace.h"
#include "train/triggers.h"
#include "train/vote.h"

namespace gputrain {

struct LoopOptions {
  TriggerPlan triggers;
  int64_t samples_per_epoch = 0;      // samples that an epoch delivers (tail dropped or not)
  std::vector<int64_t> target_shape;  // of one training sample: with it a batch's count may be known before the batch
  std::string best_metric;            // keep_best; "" = none
  bool best_is_larger = true;
  EarlyStoppingPlan early_stopping;
  bool needs_update = true;      // a run that ends without any is an error; a smoke run may be too short for its scaler
  int64_t saved_at = -1;         // the checkpoint that training continues from; -1 = none
  int64_t flops_per_sample = 0;  // of one training step
  std::optional<double> peak_flops;  // a second, of all ranks' devices; nullopt = unknown
  StateStamp stamp;                  // its bucket layout is filled in at each save
};

struct LoopResult {
  StopReason reason = StopReason::kNone;  // kNone: complete
  int64_t step = 0;
  int64_t saved_step = -1;              // newest checkpoint that holds this or an earlier state of this run; -1 = none
  Json final_metrics = Json::object();  // {loss, ...metrics} of the last evaluation, or {loss} of the last step
  std::string stopped_early;            // why the run is complete before its planned end; "" = it is not
};

// This rank's place among the others and its connections to the outside.
struct LoopContext {
  std::shared_ptr<Comm> gradients;
  Vote& vote;
  StopSource& stop;
  PhaseMarker& marker;
  RecordChannel& records;
  Clock& clock;
  PhaseTimer* timer = nullptr;  // rank 0's, fed by the marker; null = records without a split
};

class Loop {
 public:
  // All outlive the loop; `evaluator` and `trace` may be null. The reducer is in the runner.
  struct Parts {
    TrainState& state;
    StepRunner& runner;
    Loader& loader;
    Evaluator* evaluator;
    Saver& saver;
    Trace* trace;
    LoopContext& context;
  };
  Loop(const Parts& parts, LoopOptions options);

  // The state's counters say where training continues; the loader is positioned here.
  LoopResult run();

 private:
  Counters& counters() { return parts_.state.counters; }
  bool is_first() const { return parts_.context.vote.rank() == 0; }
  // Rank 0's clock; nothing elsewhere.
  MonotonicTime now() const;
  Position position(int64_t step) const;
  LoopResult run_to_end();
  void check_anything_learnt() const;
  void fetch();
  Ballot ballot(int64_t step) const;
  Ballot early_ballot(int64_t step);
  Agreement agree();
  void step(const Agreement& agreement);
  void trace(const StepResult& result);
  // False: a stop was seen during the evaluation, and nothing was saved.
  bool run_due(const Due& due, const std::string& why);
  void report(const Metrics& metrics, double seconds);
  bool note_best(double value);
  void save(std::optional<double> metric, const std::string& why);
  StopReason agreed_stop();
  LoopResult end(StopReason reason);

  Parts parts_;
  LoopOptions options_;
  Triggers triggers_;
  StepLog log_;
  EarlyStopping stopping_;
  std::vector<Batch> current_;                 // of the step being executed
  std::optional<std::vector<Batch>> fetched_;  // the next step's batches, once they are here
  int64_t steps_ = 0, counted_ = 0;            // of this launch: steps done, and what counted in them
  std::optional<Agreement> early_;             // what the last step's vote said of the next one
  double data_wait_s_ = 0;                     // for the next step's batches
  int64_t saved_at_ = -1;
  MonotonicTime mark_;  // end of the previous step, evaluation or save
  Json final_metrics_ = Json::object();
};

}  // namespace gputrain

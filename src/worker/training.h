#pragma once
// A training rank: assembled from an Assign, then run.
#include <memory>
#include <optional>
#include <string>

#include "dist/reducer.h"
#include "train/loop.h"
#include "train/resume.h"
#include "worker/foundation.h"
#include "worker/insight.h"

namespace gputrain {

// For tests (wire/env.h).
struct TraceOptions {
  std::string directory;   // "" = no trace
  bool gradients = false;  // of every step
};

class Training {
 public:
  struct Parts {
    StopSource& stop;
    PhaseMarker& marker;
    RecordChannel& records;
  };
  // Builds everything and loads the state to continue from: a collective operation. Writes nothing.
  Training(Foundation base, const Parts& parts, const TraceOptions& trace);

  // Bodies of Ready and Done (wire/messages.h).
  Json ready() const;
  Json run();

 private:
  TrainState make_state() const;
  Json measured(const std::string& metric) const;
  void check_micro_batches() const;
  void load_state();
  void make_runner(const TraceOptions& trace);
  std::vector<std::string> notices() const;
  void check_warmup() const;
  CheckpointOptions checkpoint_options() const;
  bool is_ours(const std::string& checkpoint) const;
  LoopOptions loop_options() const;

  Foundation base_;
  Parts parts_;
  std::unique_ptr<Loader> loader_;
  int64_t total_steps_ = 0;
  TrainState state_;
  StateStamp stamp_;
  Resumed resumed_;
  std::unique_ptr<GradReducer> reducer_;
  std::unique_ptr<Schedule> schedule_;
  std::unique_ptr<Trace> trace_;
  std::unique_ptr<StepRunner> runner_;
  std::unique_ptr<Evaluator> evaluator_;
  std::unique_ptr<Saver> saver_;
  std::unique_ptr<Insight> insight_;
};

}  // namespace gputrain

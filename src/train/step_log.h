#pragma once
#include <cstdint>
#include <optional>

#include "monitor/record.h"
#include "train/record_channel.h"
#include "train/state.h"
#include "train/step_runner.h"
#include "train/step_times.h"

namespace gputrain {

// What the records measure a run's speed against.
struct SpeedScale {
  int64_t steps_per_epoch = 1;
  int64_t flops_per_sample = 0;      // of one training step
  std::optional<double> peak_flops;  // a second, of all ranks' devices; nullopt = unknown
};

// Writes StepRecords (rank 0): throughput, waits and the split are of all ranks' samples and all steps since the
// previous record, the first and slowest too; without evaluations and saves.
class StepLog {
 public:
  // `timer` may be null: no split.
  StepLog(RecordChannel& records, const SpeedScale& scale, PhaseTimer* timer)
      : records_(records), scale_(scale), timer_(timer) {}
  // A step has ended, `step_s` after the one before it (or after an evaluation or save); `samples` of all ranks.
  void add(double step_s, double data_wait_s, int64_t samples);
  void write(const TrainState& state, const StepResult& result);

 private:
  void add_split(StepRecord& record) const;

  RecordChannel& records_;
  SpeedScale scale_;
  PhaseTimer* timer_;
  double step_s_ = 0, data_wait_s_ = 0;
  int64_t samples_ = 0, steps_ = 0;
};

}  // namespace gputrain

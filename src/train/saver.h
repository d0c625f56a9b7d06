#pragma once
// Saving a checkpoint: rank 0 writes, the others go on.
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "ckpt/checkpoint.h"
#include "sys/clock.h"
#include "train/phase.h"
#include "train/record_channel.h"
#include "train/state.h"

namespace gputrain {

// Throws Error(kOutput) unless `lock_path` still names this run and attempt: a commit by an attempt that was declared
// dead must fail.
std::function<void()> lock_fence(FileSystem& fs, std::string lock_path, std::string run_id, int attempt);

class Saver {
 public:
  struct Parts {
    FileSystem& fs;
    RecordChannel& records;
    PhaseMarker& marker;
    Clock& clock;
    int rank = 0;
  };
  // `options.check_fence` is called after all records are synced; `options.on_phase` is set here.
  Saver(const Parts& parts, CheckpointOptions options);

  // On rank 0: writes, commits and emits a CheckpointRecord (`why`: every, best, last, stop). Elsewhere: nothing.
  // `metric`: the keep_best value, when an evaluation of this very state gave one.
  void save(const TrainState& state, const StateStamp& stamp, std::optional<double> metric, const std::string& why);
  // Once, before the first step: removes what dead attempts left half written, and moves checkpoints above `step`
  // (where training continues; -1 = from the beginning) aside: this run has left that past. Rank 0 alone does it.
  void prepare(int64_t step);

 private:
  CheckpointOptions with_hooks(CheckpointOptions options);

  Parts parts_;
  int64_t step_ = 0;  // being saved
  CheckpointStore store_;
};

}  // namespace gputrain

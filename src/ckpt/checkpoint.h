#pragma once
// Checkpoints: OUTPUT/checkpoints/step-00001200/{manifest.json model.safetensors optimizer.safetensors state.json};
// FORMAT.md is the grammar. A directory without a valid manifest does not exist for resume. Needs no dist: writers
// report, the committer commits.
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "sys/fs.h"
#include "util/json.h"

namespace gputrain {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

// What one save holds. Tensors are CPU or device; they are copied to the host while written.
struct CheckpointContent {
  int64_t step = 0;
  NamedTensors model;      // parameters and buffers, Python's names
  NamedTensors optimizer;  // "<parameter name>/exp_avg", ...
  Json state;              // counters, scaler, best metric, layout, fingerprints, versions: everything else
};

// A file that a writer finished (written and fsynced): what the committer puts into the manifest.
struct PartReport {
  std::string file;
  int64_t size = 0;
  std::string xxh3;  // 16 hex digits of XXH3-64 over the whole file
  Json tensors;      // {name: {dtype, shape, slices: [{file, shape, offset}]}}; empty object for state.json
};

struct CheckpointOptions {
  std::string directory;  // OUTPUT/checkpoints
  std::string run_id;
  int attempt = 1;
  int keep_last = 3;      // >= 1
  std::string keep_best;  // metric; "" = none
  bool best_is_larger = true;
  Json best_measured_on = nullptr;  // see CheckpointMetric
  // Fencing: called right before the commit's rename; throws when the lock is not this attempt's any more (passed on
  // unchanged).
  std::function<void()> check_fence;
  // Phase hooks for progress and fault placement: "writing" (files), "commit" (between write and rename).
  std::function<void(const char* phase)> on_phase;
};

struct SavedCheckpoint {
  int64_t step = 0;
  std::string path;
  int64_t bytes = 0;
  // The save succeeded, but an old checkpoint could not be examined or removed: for the log, never a reason to stop.
  std::vector<std::string> warnings;
};

class CheckpointStore {
 public:
  CheckpointStore(FileSystem& fs, CheckpointOptions options);

  // Writes .tmp-<step>-<attempt>/, fsyncs, commits by rename, verifies (reopens and rehashes), then prunes by the
  // retention rule. A step that is already saved with an equal state.json and verifies is a no-op that returns it
  // (tensors are not compared: a step's are a function of the run); with another state (evaluated since) it is
  // replaced. Throws Error(kCheckpoint); what was good before stays good, the temporary directory is removed when it
  // can be. `metric`: the keep_best value of this state, when an evaluation has just given one (NaN never counts as
  // best). It replaces a saved step that has none. Kept in state.json as the item "metric", which the caller's state
  // must not have.
  SavedCheckpoint save(const CheckpointContent& content, std::optional<double> metric);

  // Removes .tmp-* and .trash-* of dead attempts, and puts a checkpoint back whose replacement never came. Called once,
  // when the attempt owns the lock. Foreign names are left alone. Throws Error(kCheckpoint).
  void sweep();

  // Renames every checkpoint above `step` to .aside-step-*: after a resume from an earlier one (a damaged newest one,
  // --resume PATH), and with -1 after --resume never. Otherwise the next `auto` would pick up a past that this run has
  // left. Nothing is deleted, then or later. Returns the new paths. Called once, after sweep(). Throws
  // Error(kCheckpoint).
  std::vector<std::string> set_aside_above(int64_t step);

 private:
  FileSystem& fs_;
  CheckpointOptions options_;
};

struct LoadedCheckpoint {
  int64_t step = 0;
  std::string path;
  std::map<std::string, at::Tensor> model;
  std::map<std::string, at::Tensor> optimizer;
  Json state;
  std::string run_id;
};
struct Rejected {
  std::string path;
  std::string why;
};
struct ResumeChoice {
  std::optional<LoadedCheckpoint> checkpoint;  // nullopt: none exists, start from the beginning
  std::vector<Rejected> rejected;              // newer ones that did not verify
};

// The newest checkpoint that verifies (manifest, sizes, hashes, safetensors structure), loaded into CPU tensors. Throws
// Error(kCheckpoint) when checkpoints exist and none verifies (never a silent new start). mode: auto | never | path.
// `path` is a checkpoint directory (that one or an Error), or a run or checkpoints directory (its newest that verifies,
// or an Error).
ResumeChoice load_for_resume(FileSystem& fs, const std::string& directory, const std::string& mode,
                             const std::string& path);

// One checkpoint directory, verified. For `eval` and `export`.
LoadedCheckpoint load_checkpoint(FileSystem& fs, const std::string& path);
// The directory that `latest` (the newest that verifies), `best` (by the keep_best metric of the newest checkpoint that
// has one) or a path means. Throws Error(kCheckpoint) when there is none, and when the best one is damaged (the second
// best is not the answer).
std::string resolve_checkpoint(FileSystem& fs, const std::string& checkpoints_directory, const std::string& which);

}  // namespace gputrain

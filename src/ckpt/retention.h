#pragma once
// Which checkpoints stay, and the removal of the others.
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ckpt/checkpoint.h"
#include "ckpt/state.h"

namespace gputrain {

// A checkpoint that verified.
struct RetentionCandidate {
  int64_t step = 0;
  std::optional<CheckpointMetric> metric;
};

// The best of those comparable with `like` (of equals the earliest); nullptr when none is. NaN is never best.
const RetentionCandidate* best_of(const std::vector<RetentionCandidate>& candidates, const CheckpointMetric& like);

// The keep_last newest, and the best by keep_best where one is named.
std::set<int64_t> steps_to_keep(const std::vector<RetentionCandidate>& candidates, const CheckpointOptions& options);

// Removes what the rule does not keep, after `saved_step` was committed and fully verified; it stays whatever the rule
// says. Steps above it are not touched: they are not part of this run's past. A directory is renamed to .trash-* first,
// so that no half of one is ever taken for a checkpoint. What cannot be examined or removed stays, and is described in
// the result.
std::vector<std::string> prune_checkpoints(FileSystem& fs, const CheckpointOptions& options, int64_t saved_step);

// Renames to .trash-* in the same directory, then removes. Missing is success. Throws what the file system throws.
void discard(FileSystem& fs, const std::string& directory, const std::string& name);

}  // namespace gputrain

#include "ckpt/retention.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "ckpt/layout.h"
#include "ckpt/verify.h"

namespace gputrain {
namespace {

bool better(double a, double b, bool larger_is_better) {
  return larger_is_better ? a > b : a < b;
}

// What a look at all directories up to the saved step gave: one verified path a step, and the paths nobody needs.
struct Survey {
  std::vector<RetentionCandidate> verified;
  std::vector<Candidate> kept_if_step_is;  // the path that stands for each verified step
  std::vector<std::string> useless;        // damaged, or a second copy of a verified step
  std::vector<std::string> warnings;
};

// Does the next best copy of the same step follow?
bool has_twin(const std::vector<Candidate>& candidates, size_t i) {
  return i + 1 < candidates.size() && candidates[i + 1].step == candidates[i].step;
}

Survey survey(FileSystem& fs, const std::string& directory, int64_t saved_step) {
  Survey result;
  const std::vector<Candidate> candidates = list_candidates(fs, directory);
  for (size_t i = 0; i < candidates.size(); ++i) {
    const Candidate& candidate = candidates[i];
    if (candidate.step > saved_step) continue;
    if (!result.verified.empty() && result.verified.back().step == candidate.step) {
      result.useless.push_back(candidate.path);
      continue;
    }
    try {
      // Of two copies of a step one goes, so the one that stays is rehashed. The saved step's was, a moment ago.
      const bool rehash = candidate.step != saved_step && has_twin(candidates, i);
      const CheckpointHead head = rehash ? verify_checkpoint(fs, candidate.path, candidate.step)
                                         : read_checkpoint_head(fs, candidate.path, candidate.step);
      result.verified.push_back({candidate.step, head.state.metric});
      result.kept_if_step_is.push_back(candidate);
    } catch (const Error& error) {
      // Damage is certain; a failed read may pass, and what it hides may be good.
      if (error.kind == ErrorKind::kCheckpoint) {
        result.useless.push_back(candidate.path);
      } else {
        result.warnings.push_back("cannot examine " + candidate.path + ": " + error.message);
      }
    }
  }
  return result;
}

std::string file_name(const std::string& path) {
  return std::filesystem::path(path).filename().string();
}

}  // namespace

const RetentionCandidate* best_of(const std::vector<RetentionCandidate>& candidates, const CheckpointMetric& like) {
  const RetentionCandidate* best = nullptr;
  for (const RetentionCandidate& candidate : candidates) {
    if (!candidate.metric || !comparable(*candidate.metric, like) || std::isnan(candidate.metric->value)) continue;
    const double value = candidate.metric->value;
    const bool wins = best == nullptr || better(value, best->metric->value, like.larger_is_better) ||
                      (value == best->metric->value && candidate.step < best->step);
    if (wins) best = &candidate;
  }
  return best;
}

std::set<int64_t> steps_to_keep(const std::vector<RetentionCandidate>& candidates, const CheckpointOptions& options) {
  std::set<int64_t> keep;
  for (const RetentionCandidate& candidate : candidates) keep.insert(candidate.step);
  while (static_cast<int64_t>(keep.size()) > options.keep_last) keep.erase(keep.begin());
  if (options.keep_best.empty()) return keep;
  const RetentionCandidate* best =
      best_of(candidates, {options.keep_best, 0, options.best_is_larger, options.best_measured_on});
  if (best != nullptr) keep.insert(best->step);
  return keep;
}

void discard(FileSystem& fs, const std::string& directory, const std::string& name) {
  const std::string path = directory + "/" + name;
  if (is_trash(name)) return fs.remove_all(path);
  const std::string trash = directory + "/" + trash_name(name);
  fs.remove_all(trash);
  if (!fs.exists(path)) return;
  try {
    fs.rename(path, trash);
  } catch (const Error&) {
    if (fs.exists(path)) throw;  // else somebody else removed it in between
  }
  fs.remove_all(trash);
}

std::vector<std::string> prune_checkpoints(FileSystem& fs, const CheckpointOptions& options, int64_t saved_step) {
  Survey found = survey(fs, options.directory, saved_step);
  std::set<int64_t> keep = steps_to_keep(found.verified, options);
  keep.insert(saved_step);
  for (const Candidate& candidate : found.kept_if_step_is) {
    if (!keep.contains(candidate.step)) found.useless.push_back(candidate.path);
  }
  for (const std::string& name : fs.list(options.directory)) {
    if (is_trash(name)) found.useless.push_back(options.directory + "/" + name);  // of a removal that was interrupted
  }
  std::vector<std::string> warnings = std::move(found.warnings);
  for (const std::string& path : found.useless) {
    try {
      discard(fs, options.directory, file_name(path));
    } catch (const Error& error) {
      warnings.push_back("cannot remove the old checkpoint " + path + ": " + error.message);
    }
  }
  return warnings;
}

}  // namespace gputrain

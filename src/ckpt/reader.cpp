#include <algorithm>
#include <filesystem>

#include "ckpt/checkpoint.h"
#include "ckpt/layout.h"
#include "ckpt/retention.h"
#include "ckpt/verify.h"
#include "util/text.h"

namespace gputrain {
namespace {

// "runs/a/" and "runs/a" are the same directory.
std::string without_trailing_slash(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

bool is_checkpoint(FileSystem& fs, const std::string& path) {
  return fs.exists(path + "/" + kManifestFile);
}

// Where a damaged item names itself, the file is worth more than the directory around it.
Rejected rejected(const std::string& path, const Error& error) {
  return {path, error.where.empty() || error.where == path ? error.message : error.where + ": " + error.message};
}

[[noreturn]] void none_verifies(const std::string& directory, const std::vector<Rejected>& rejected) {
  std::string message = "none of the " + plural(static_cast<int64_t>(rejected.size()), "checkpoint") + " verifies:";
  for (const Rejected& item : rejected) message += "\n  " + item.path + ": " + item.why;
  throw Error(ErrorKind::kCheckpoint, message, directory,
              "start over with --resume never (it moves them aside), or name another one with --resume PATH");
}

// The newest of a checkpoints directory for which `look` does not throw.
template <typename Look>
auto newest_good(FileSystem& fs, const std::string& directory, std::vector<Rejected>& rejects, Look look)
    -> std::optional<decltype(look(Candidate{}))> {
  for (const Candidate& candidate : list_candidates(fs, directory)) {
    try {
      return look(candidate);
    } catch (const Error& error) {
      rejects.push_back(rejected(candidate.path, error));
    }
  }
  return std::nullopt;
}

ResumeChoice load_newest(FileSystem& fs, const std::string& directory) {
  ResumeChoice choice;
  choice.checkpoint = newest_good(fs, directory, choice.rejected, [&](const Candidate& candidate) {
    return load_verified(fs, candidate.path, candidate.step);
  });
  if (!choice.checkpoint && !choice.rejected.empty()) none_verifies(directory, choice.rejected);
  return choice;
}

ResumeChoice load_from_path(FileSystem& fs, const std::string& path) {
  if (is_checkpoint(fs, path)) return {load_checkpoint(fs, path), {}};
  for (const std::string& directory : {path, path + "/checkpoints"}) {
    ResumeChoice choice = load_newest(fs, directory);
    if (choice.checkpoint) return choice;
  }
  const bool exists = fs.exists(path);
  throw Error(ErrorKind::kCheckpoint, exists ? "no checkpoint here" : "no such directory", path,
              "name a step-* directory, or the output directory of a run that has saved");
}

std::string find_latest(FileSystem& fs, const std::string& directory) {
  std::vector<Rejected> rejects;
  const auto latest = newest_good(fs, directory, rejects, [&](const Candidate& candidate) {
    return verify_checkpoint(fs, candidate.path, candidate.step).path;
  });
  if (latest) return *latest;
  if (!rejects.empty()) none_verifies(directory, rejects);
  throw Error(ErrorKind::kCheckpoint, "no checkpoint here", directory);
}

std::string find_best(FileSystem& fs, const std::string& directory) {
  std::vector<RetentionCandidate> candidates;
  std::vector<std::string> paths;
  for (const Candidate& candidate : list_candidates(fs, directory)) {
    try {
      const CheckpointHead head = read_checkpoint_head(fs, candidate.path, candidate.step);
      candidates.push_back({candidate.step, head.state.metric});
      paths.push_back(candidate.path);
    } catch (const Error&) {  // without a readable metric it cannot be the best
    }
  }
  const auto newest_with_metric = std::find_if(candidates.begin(), candidates.end(),
                                               [](const RetentionCandidate& c) { return c.metric.has_value(); });
  const RetentionCandidate* best = nullptr;
  if (newest_with_metric != candidates.end()) best = best_of(candidates, *newest_with_metric->metric);
  if (best == nullptr) {
    throw Error(ErrorKind::kCheckpoint, "no checkpoint here has a keep_best metric", directory,
                "use latest, or set checkpoint.keep_best and train on");
  }
  return verify_checkpoint(fs, paths[static_cast<size_t>(best - candidates.data())], best->step).path;
}

// A link whose disk is not mounted looks like a run without checkpoints; it would be found out at the first save.
std::string present(const std::string& directory) {
  std::error_code ignored;
  if (std::filesystem::is_symlink(directory, ignored) && !std::filesystem::exists(directory, ignored)) {
    throw Error(ErrorKind::kCheckpoint, "a link to a place that is not there", directory,
                "mount the disk that it points to, or remove the link");
  }
  return directory;
}

}  // namespace

ResumeChoice load_for_resume(FileSystem& fs, const std::string& directory, const std::string& mode,
                             const std::string& path) {
  return as_checkpoint_error([&]() -> ResumeChoice {
    if (mode == "never") return {};
    if (mode == "auto") return load_newest(fs, present(without_trailing_slash(directory)));
    if (mode == "path") return load_from_path(fs, without_trailing_slash(path));
    throw Error(ErrorKind::kInternal, "unknown resume mode " + printable(mode));
  });
}

LoadedCheckpoint load_checkpoint(FileSystem& fs, const std::string& path) {
  return as_checkpoint_error([&] {
    const std::string directory = without_trailing_slash(path);
    return load_verified(fs, directory, step_of(std::filesystem::path(directory).filename().string()));
  });
}

std::string resolve_checkpoint(FileSystem& fs, const std::string& checkpoints_directory, const std::string& which) {
  return as_checkpoint_error([&] {
    if (which == "latest") return find_latest(fs, checkpoints_directory);
    if (which == "best") return find_best(fs, checkpoints_directory);
    const std::string path = without_trailing_slash(which);
    if (!is_checkpoint(fs, path)) {
      throw Error(ErrorKind::kCheckpoint, "not a checkpoint directory", path,
                  "use latest, best, or the path of a step-* directory");
    }
    return path;
  });
}

}  // namespace gputrain

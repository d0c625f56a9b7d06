#include <filesystem>
#include <utility>

#include "ckpt/checkpoint.h"
#include "ckpt/layout.h"
#include "ckpt/manifest.h"
#include "ckpt/retention.h"
#include "ckpt/safetensors.h"
#include "ckpt/verify.h"
#include "ckpt/writer.h"
#include "util/units.h"

namespace gputrain {
namespace {

std::string parent_of(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

void remove_quietly(FileSystem& fs, const std::string& path) {
  try {
    fs.remove_all(path);
  } catch (const Error&) {  // sweep() tries again; the error on the way out is the one to report
  }
}

// One save on its way from tensors to a verified directory.
class Save {
 public:
  Save(FileSystem& fs, const CheckpointOptions& options, const CheckpointContent& content, StateFile state)
      : fs_(fs),
        options_(options),
        content_(content),
        state_(state_text(state)),
        model_(plan_safetensors(content.model)),
        optimizer_(plan_safetensors(content.optimizer)),
        temporary_(options.directory + "/" + temporary_name(content.step, options.attempt)),
        final_(options.directory + "/" + step_name(content.step)) {}

  // The checkpoint of this step, if it is there and whole.
  std::optional<CheckpointHead> existing() const {
    if (!fs_.exists(final_)) return std::nullopt;
    try {
      CheckpointHead head = verify_checkpoint(fs_, final_, content_.step);
      fs_.sync_directory(options_.directory);  // an earlier save may have failed at exactly this sync
      return head;
    } catch (const Error& error) {
      if (error.kind != ErrorKind::kCheckpoint) throw;
      return std::nullopt;
    }
  }

  void write() {
    make_directory();
    check_space();
    fs_.remove_all(temporary_);  // of an earlier try of this attempt
    fs_.make_directories(temporary_);
    const std::vector<PartReport> parts = {
        write_tensor_part(fs_, temporary_, kModelFile, content_.model, model_),
        write_tensor_part(fs_, temporary_, kOptimizerFile, content_.optimizer, optimizer_),
        write_text_part(fs_, temporary_, kStateFile, state_)};
    write_manifest(fs_, temporary_, manifest_text(make_manifest(content_.step, options_.run_id, parts)));
  }

  void publish() {
    // A directory of this step, damaged or without the metric, steps aside under a name that resume still looks at.
    if (fs_.exists(final_)) {
      fs_.rename(final_, free_name(fs_, options_.directory, kReplacedPrefix, content_.step));
    }
    fs_.rename(temporary_, final_);
    fs_.sync_directory(options_.directory);
  }

  SavedCheckpoint verify() const {
    const CheckpointHead head = verify_checkpoint(fs_, final_, content_.step);
    return {content_.step, final_, head.bytes, {}};
  }

  const std::string& temporary() const { return temporary_; }
  const std::string& final_path() const { return final_; }

 private:
  // Also durable: the commit's sync of this directory is worth nothing when its own entry in the parent is lost.
  void make_directory() {
    std::vector<std::string> parents{parent_of(options_.directory)};
    for (std::string path = parents.back(); !fs_.exists(path); path = parents.back()) {
      parents.push_back(parent_of(path));
    }
    fs_.make_directories(options_.directory);
    for (const std::string& parent : parents) fs_.sync_directory(parent);
  }

  void check_space() {
    const double needed =
        1.2 * static_cast<double>(model_.size + optimizer_.size + static_cast<int64_t>(state_.size()));
    const int64_t free = fs_.free_bytes(options_.directory);
    if (static_cast<double>(free) < needed) {
      throw Error(ErrorKind::kCheckpoint,
                  "needs " + format_size(static_cast<int64_t>(needed)) + ", " + format_size(free) + " free",
                  options_.directory);
    }
  }

  FileSystem& fs_;
  const CheckpointOptions& options_;
  const CheckpointContent& content_;
  std::string state_;
  SafetensorsPlan model_;
  SafetensorsPlan optimizer_;
  std::string temporary_;
  std::string final_;
};

// Says which save failed and what that means for the user.
template <typename Action>
auto as_save_error(int64_t step, const std::string& directory, Action action) {
  try {
    return action();
  } catch (const Error& error) {
    if (error.kind == ErrorKind::kInternal) throw;
    throw Error(ErrorKind::kCheckpoint,
                "cannot save the checkpoint of step " + std::to_string(step) + ": " + error.message,
                error.where.empty() ? directory : error.where,
                "the earlier checkpoints are untouched; make room or repair " + directory + " and launch again");
  }
}

std::optional<CheckpointMetric> metric_of(const CheckpointOptions& options, std::optional<double> value) {
  if (!value || options.keep_best.empty()) return std::nullopt;
  return CheckpointMetric{options.keep_best, *value, options.best_is_larger, options.best_measured_on};
}

// Nothing that a save would change.
bool is_same(const CheckpointHead& existing, const StateFile& wanted) {
  const std::optional<CheckpointMetric>& metric = existing.state.metric;
  return existing.state.state == wanted.state && (!wanted.metric || (metric && comparable(*metric, *wanted.metric)));
}

}  // namespace

CheckpointStore::CheckpointStore(FileSystem& fs, CheckpointOptions options) : fs_(fs), options_(std::move(options)) {
  if (options_.keep_last < 1) {
    throw Error(ErrorKind::kCheckpoint,
                "keep_last is " + std::to_string(options_.keep_last) + ", at least 1 is needed");
  }
}

SavedCheckpoint CheckpointStore::save(const CheckpointContent& content, std::optional<double> metric) {
  const auto translated = [&](auto action) { return as_save_error(content.step, options_.directory, action); };
  const StateFile state{content.state, metric_of(options_, metric)};
  Save save = translated([&] { return Save(fs_, options_, content, state); });
  const std::optional<CheckpointHead> existing = translated([&] { return save.existing(); });
  if (existing && is_same(*existing, state)) return {content.step, save.final_path(), existing->bytes, {}};

  const auto enter = [&](const char* phase) {
    if (options_.on_phase) options_.on_phase(phase);
  };
  try {
    enter("writing");
    translated([&] { save.write(); });
    enter("commit");
    if (options_.check_fence) options_.check_fence();
    translated([&] { save.publish(); });
  } catch (...) {
    remove_quietly(fs_, save.temporary());
    throw;
  }
  SavedCheckpoint saved = translated([&] { return save.verify(); });
  try {
    saved.warnings = prune_checkpoints(fs_, options_, content.step);
  } catch (const Error& error) {
    saved.warnings.push_back("cannot look for old checkpoints to remove: " + error.message);
  }
  return saved;
}

void CheckpointStore::sweep() {
  as_checkpoint_error([&] {
    for (const std::string& name : fs_.list(options_.directory)) {
      if (is_temporary(name) || is_trash(name)) fs_.remove_all(options_.directory + "/" + name);
      const std::optional<int64_t> step = replaced_step_of(name);
      if (!step) continue;
      const std::string original = options_.directory + "/" + step_name(*step);
      if (fs_.exists(original)) continue;  // the next prune decides between the two
      fs_.rename(options_.directory + "/" + name, original);
      fs_.sync_directory(options_.directory);
    }
  });
}

std::vector<std::string> CheckpointStore::set_aside_above(int64_t step) {
  return as_checkpoint_error([&] {
    std::vector<std::string> moved;
    for (const Candidate& candidate : list_candidates(fs_, options_.directory)) {
      if (candidate.step <= step) break;
      moved.push_back(free_name(fs_, options_.directory, kAsidePrefix, candidate.step));
      fs_.rename(candidate.path, moved.back());
    }
    if (!moved.empty()) fs_.sync_directory(options_.directory);
    return moved;
  });
}

}  // namespace gputrain

#include "train/saver.h"

#include <cstring>
#include <utility>

#include "monitor/record.h"
#include "util/error.h"
#include "util/text.h"

namespace gputrain {

std::function<void()> lock_fence(FileSystem& fs, std::string lock_path, std::string run_id, int attempt) {
  return [&fs, lock_path, run_id, attempt] {
    const std::string hint = "another launch owns this output directory now; nothing of this attempt is committed";
    if (!fs.exists(lock_path)) {
      throw Error(ErrorKind::kOutput, "the lock is gone", lock_path,
                  "somebody has removed it, or the whole output directory; nothing of this attempt is committed");
    }
    const Json lock = parse_json(fs.read(lock_path), lock_path);
    if (lock.value("run_id", std::string()) != run_id || lock.value("attempt", -1) != attempt) {
      throw Error(ErrorKind::kOutput,
                  "the lock belongs to attempt " + dump_line(lock.value("attempt", Json())) + " of run " +
                      dump_line(lock.value("run_id", Json())),
                  lock_path, hint);
    }
  };
}

Saver::Saver(const Parts& parts, CheckpointOptions options)
    : parts_(parts), store_(parts.fs, with_hooks(std::move(options))) {}

CheckpointOptions Saver::with_hooks(CheckpointOptions options) {
  options.on_phase = [this](const char* phase) {
    parts_.marker.enter(std::strcmp(phase, "commit") == 0 ? Phase::kCommit : Phase::kWriting, step_);
  };
  options.check_fence = [this, fence = std::move(options.check_fence)] {
    parts_.records.sync();
    if (fence) fence();
  };
  return options;
}

void Saver::save(const TrainState& state, const StateStamp& stamp, std::optional<double> metric,
                 const std::string& why) {
  if (parts_.rank != 0) return;
  step_ = state.counters.step;
  const MonotonicTime start = parts_.clock.now();
  const SavedCheckpoint saved = store_.save(content_of(state, stamp), metric);
  CheckpointRecord record;
  record.step = saved.step;
  record.path = saved.path;
  record.bytes = saved.bytes;
  record.seconds = seconds_between(start, parts_.clock.now());
  record.why = why;
  parts_.records.send(to_json(record));
  for (const std::string& warning : saved.warnings) parts_.records.send(warning_record(warning));
}

void Saver::prepare(int64_t step) {
  if (parts_.rank != 0) return;
  store_.sweep();
  const std::vector<std::string> moved = store_.set_aside_above(step);
  if (!moved.empty()) {
    parts_.records.send(warning_record("training continues at step " + std::to_string(std::max<int64_t>(step, 0)) +
                                       "; later checkpoints were moved aside: " + join(moved, ", ")));
  }
}

}  // namespace gputrain

#pragma once
// What the controller writes under OUTPUT, besides the lock: spec.yaml, plan.json, events.jsonl, result.json, and the
// renaming of old checkpoints. Nothing is written before the start event, and a start event that cannot be written
// leaves the tree as it was.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "monitor/journal.h"
#include "sys/clock.h"
#include "sys/fs.h"
#include "util/json.h"

namespace gputrain {

struct StartFiles {
  std::string spec_text;
  Json plan;                            // to_json(RunPlan)
  bool move_checkpoints_aside = false;  // --resume never, the first time that ranks are ready
};

class RunFiles {
 public:
  RunFiles(FileSystem& fs, std::string output, Clock& clock);

  // Differences of the spec to the one of the launch before: see spec_changes(). Empty for a first launch.
  Json changes(const std::string& spec_text) const;
  // Writes the files, then opens events.jsonl and appends and syncs `start`, to which "checkpoints_moved_to" is added
  // when there were any. All or nothing; throws Error(kOutput). Later calls (next attempts) only append. Returns the
  // event's line.
  std::string begin(const StartFiles& files, Json start, int attempt);
  // nullptr before begin().
  Journal* journal() { return journal_.get(); }
  void write_result(const Json& result);

 private:
  void replace(const std::string& name, const std::string& text);
  std::string move_checkpoints_aside();
  void open_journal();
  void undo_all();

  FileSystem& fs_;
  std::string output_;
  Clock& clock_;
  MonotonicTime start_;
  std::unique_ptr<Journal> journal_;
  std::vector<std::function<void()>> undo_;
};

// FNV-1a of what the plan asks for, without `launch` (hosts and limits may change between launches of the same run): 16
// hex digits.
std::string plan_hash(const Json& plan);

}  // namespace gputrain

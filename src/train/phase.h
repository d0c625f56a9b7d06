#pragma once
// Where this rank is, for status, hang detection and fault placement: plain stores into the progress page.
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "train/stop_source.h"
#include "wire/progress_page.h"

namespace gputrain {

// A place at which tests make a rank wait (GPUTRAIN_INTERNAL_HOLD=phase@step; read by the worker's main, see
// wire/env.h).
struct Hold {
  Phase phase = Phase::kSetUp;
  uint64_t step = 0;
  std::string once_path;  // not empty: hold only if this file can be created
};
// Parses "backward@12". Error(kUsage) for anything else.
Hold parse_hold(const std::string& text);

// Steps are 1-based: the step being executed. Evaluation, writing and commit carry the step whose state they work on;
// set-up is step 0.
class PhaseMarker {
 public:
  // `page` may be null (tests). `stop` ends a hold.
  PhaseMarker(ProgressPage* page, const StopSource& stop, std::optional<Hold> hold);

  // Called by the training thread, and by the autograd thread while the training thread waits for it.
  void enter(Phase phase, int64_t step);
  // As each gradient all-reduce is issued: counts it and enters all-reduce of the step being executed.
  void enter_all_reduce();
  // Calls `watcher` at every later enter(), on its thread (timer, profiler). What it refers to outlives the marker's
  // last enter().
  void watch(std::function<void(Phase phase, int64_t step)> watcher) { watchers_.push_back(std::move(watcher)); }

 private:
  void wait_here();

  ProgressPage* page_;
  const StopSource& stop_;
  std::optional<Hold> hold_;
  std::vector<std::function<void(Phase, int64_t)>> watchers_;
  int64_t step_ = 0;
};

}  // namespace gputrain

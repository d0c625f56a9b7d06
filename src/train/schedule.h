#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "spec/plan.h"

namespace gputrain {

// Learning-rate factor as a pure function of the number of applied optimizer updates (design section 6.5): nothing to
// save, nothing to restore.
//   warmup: f(u) = start + (1 - start) u / w for u < w, f(w) = 1; after it the decay by position (u - w) / (T - w).
//   granularity epoch: u, w and T are taken in whole epochs (u rounded down, w and T up).
//   T <= w: the run ends within the warm-up, which is not compressed; the decay then has the length of one update.
// Thread-safe: immutable.
class Schedule {
 public:
  // total_updates: the planned number of optimizer updates T (> 0). Error(kSpec) for an unknown name.
  Schedule(const SchedulePlan& plan, int64_t total_updates, int64_t steps_per_epoch);
  // The factor for the update that follows `updates` applied ones. updates >= T gives the final factor.
  double factor(int64_t updates) const;

 private:
  SchedulePlan plan_;
  int64_t total_, warmup_, steps_per_epoch_;
};

std::vector<std::string> schedule_names();  // a test compares them with the catalog

}  // namespace gputrain

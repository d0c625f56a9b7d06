#pragma once
#include <cstdint>

#include "spec/plan.h"
#include "train/lr_curve.h"

namespace gputrain {

// Learning-rate factor as a pure function of the number of applied optimizer updates (design section 6.5): nothing to
// save, nothing to restore.
//   warmup: f(u) = start + (1 - start) u / w for u < w, f(w) = 1; after it the curve of lr_curve.h.
//   granularity epoch: u and all lengths are taken in whole epochs (u rounded down, lengths up).
//   T <= w: the run ends within the warm-up, which is not compressed; the curve then has the length of one update.
// Thread-safe: immutable.
class Schedule {
 public:
  // total_updates: the planned number of optimizer updates T (> 0). Error(kSpec) as make_curve().
  Schedule(const SchedulePlan& plan, int64_t total_updates, int64_t steps_per_epoch);
  // The factor for the update that follows `updates` applied ones. updates >= T gives the final factor.
  double factor(int64_t updates) const;

 private:
  double warmup_start_;
  int64_t unit_;  // updates in a unit of the granularity
  int64_t warmup_ = 0;
  Curve curve_;
};

}  // namespace gputrain

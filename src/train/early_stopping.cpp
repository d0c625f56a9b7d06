#include "train/early_stopping.h"

#include <cmath>

#include "util/text.h"

namespace gputrain {
namespace {

bool improves(double value, const std::optional<double>& best, const EarlyStoppingPlan& plan) {
  if (std::isnan(value)) return false;
  if (!best) return true;
  return plan.larger_is_better ? value > *best + plan.min_delta : value < *best - plan.min_delta;
}

}  // namespace

void EarlyStopping::note(double value) {
  if (!enabled()) return;
  if (improves(value, best_, plan_)) {
    best_ = value;
    stale_ = 0;
  } else {
    ++stale_;
  }
}

std::string EarlyStopping::reason() const {
  return "stopped early: " + plan_.metric + " has not improved for " + plural(stale_, "evaluation");
}

}  // namespace gputrain

#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "spec/plan.h"

namespace gputrain {

// Ends a run whose metric no longer improves. Its two numbers are the run's counters (train/state.h), so they survive a
// resume; what it is told are reduced sums, the same on every rank, so all ranks decide alike.
class EarlyStopping {
 public:
  // `stale`: evaluations since the last improvement; `best`: the metric then. Both outlive this.
  EarlyStopping(const EarlyStoppingPlan& plan, int64_t& stale, std::optional<double>& best)
      : plan_(plan), stale_(stale), best_(best) {}

  // After each evaluation. Better by more than min_delta than the best so far is an improvement; NaN never is.
  void note(double value);
  // Depends on the counters alone: a run that ended so is complete when launched again, unless the patience has grown.
  bool due() const { return enabled() && stale_ >= plan_.patience; }
  bool enabled() const { return !plan_.metric.empty(); }
  const std::string& metric() const { return plan_.metric; }
  // "stopped early: accuracy has not improved for 5 evaluations"
  std::string reason() const;

 private:
  EarlyStoppingPlan plan_;
  int64_t& stale_;
  std::optional<double>& best_;
};

}  // namespace gputrain

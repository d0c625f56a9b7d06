#include "train/triggers.h"

#include <algorithm>
#include <limits>

#include "util/error.h"

namespace gputrain {

int64_t total_steps(const TrainPlan& plan, int64_t steps_per_epoch) {
  GP_CHECK(plan.epochs || plan.max_steps, "a plan says how long it trains");
  int64_t total = std::numeric_limits<int64_t>::max();
  if (plan.max_steps) total = *plan.max_steps;
  if (plan.epochs) total = std::min(total, *plan.epochs * steps_per_epoch);
  return total;
}

Trigger::Trigger(const Every& every, int64_t steps_per_epoch, MonotonicTime start)
    : every_(every), steps_(every.length ? length_in_steps(*every.length, steps_per_epoch) : 0), last_(start) {}

bool Trigger::due_at(int64_t step) const {
  return steps_ > 0 && step > 0 && step % steps_ == 0;
}

bool Trigger::due(int64_t step, MonotonicTime now) const {
  return due_at(step) || (every_.duration && step > 0 && now - last_ >= *every_.duration);
}

Triggers::Triggers(const TriggerPlan& plan, MonotonicTime start)
    : plan_(plan),
      log_(plan.log, plan.steps_per_epoch, start),
      evaluate_(plan.evaluate, plan.steps_per_epoch, start),
      save_(plan.save, plan.steps_per_epoch, start) {}

Due Triggers::due(const Position& position, MonotonicTime now) const {
  const bool last = finished(position.step);
  Due due;
  due.evaluate = position.step > 0 && position.evaluated_at != position.step && !evaluate_.never() &&
                 (last || evaluate_.due(position.step, now));
  due.save = position.step > 0 && position.saved_at != position.step && (last || save_.due(position.step, now));
  return due;
}

bool Triggers::log_due(int64_t step, MonotonicTime now) const {
  return finished(step) || log_.due(step, now);
}

}  // namespace gputrain

#include "train/schedule.h"

#include "util/error.h"
#include "util/text.h"

namespace gputrain {
namespace {

int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

}  // namespace

// All lengths are kept in the unit of the granularity; a part of an epoch counts as a whole one.
Schedule::Schedule(const SchedulePlan& plan, int64_t total_updates, int64_t steps_per_epoch)
    : warmup_start_(plan.warmup_start), unit_(plan.granularity == Granularity::kEpoch ? steps_per_epoch : 1) {
  if (total_updates <= 0 || steps_per_epoch <= 0) {
    throw Error(ErrorKind::kInternal, "a schedule over " + plural(total_updates, "update") + " with " +
                                          plural(steps_per_epoch, "step") + " an epoch");
  }
  const auto in_units = [=, unit = unit_](const Length& length) {
    return ceil_div(length_in_steps(length, steps_per_epoch, total_updates), unit);
  };
  warmup_ = in_units(plan.warmup);
  curve_ = make_curve(plan.name, {plan.args, warmup_, ceil_div(total_updates, unit_), in_units});
}

double Schedule::factor(int64_t updates) const {
  const int64_t u = updates / unit_;
  if (u >= warmup_) return curve_(u);
  return warmup_start_ + (1 - warmup_start_) * static_cast<double>(u) / static_cast<double>(warmup_);
}

}  // namespace gputrain

#include "train/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "util/error.h"
#include "util/text.h"

namespace gputrain {
namespace {

int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

// The decays: 1 at position 0, `last` at position 1, both exactly.
struct Decay {
  const char* name;
  double (*factor)(double position, double last);
};

constexpr Decay kDecays[] = {
    {"constant", [](double, double) { return 1.0; }},
    {"linear", [](double position, double last) { return std::lerp(1.0, last, position); }},
    {"cosine", [](double position,
                  double last) { return std::lerp(last, 1.0, 0.5 * (1 + std::cos(std::numbers::pi * position))); }},
};

const Decay& find_decay(const std::string& name) {
  for (const Decay& decay : kDecays) {
    if (name == decay.name) return decay;
  }
  throw Error(ErrorKind::kSpec, "unknown schedule " + printable(name), "",
              "one of " + join_words(schedule_names(), "or"));
}

}  // namespace

std::vector<std::string> schedule_names() {
  std::vector<std::string> names;
  for (const Decay& decay : kDecays) names.emplace_back(decay.name);
  return names;
}

// All three lengths are kept in the unit of the granularity; a part of an epoch counts as a whole one.
Schedule::Schedule(const SchedulePlan& plan, int64_t total_updates, int64_t steps_per_epoch)
    : plan_(plan),
      total_(total_updates),
      warmup_(length_in_steps(plan.warmup, steps_per_epoch)),
      steps_per_epoch_(steps_per_epoch) {
  find_decay(plan.name);
  if (total_updates <= 0 || steps_per_epoch <= 0) {
    throw Error(ErrorKind::kInternal, "a schedule over " + plural(total_updates, "update") + " with " +
                                          plural(steps_per_epoch, "step") + " an epoch");
  }
  if (plan.granularity == Granularity::kEpoch) {
    total_ = ceil_div(total_, steps_per_epoch);
    warmup_ = ceil_div(warmup_, steps_per_epoch);
  }
}

double Schedule::factor(int64_t updates) const {
  const int64_t u = plan_.granularity == Granularity::kEpoch ? updates / steps_per_epoch_ : updates;
  if (u < warmup_) {
    return plan_.warmup_start + (1 - plan_.warmup_start) * static_cast<double>(u) / static_cast<double>(warmup_);
  }
  const int64_t decay_length = std::max<int64_t>(1, total_ - warmup_);
  const double position = std::min(1.0, static_cast<double>(u - warmup_) / static_cast<double>(decay_length));
  return find_decay(plan_.name).factor(position, plan_.final_factor);
}

}  // namespace gputrain

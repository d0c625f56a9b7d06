#include "monitor/eta.h"

#include <cmath>

namespace gputrain {

void Eta::start(const Json& record) {
  total_ = record.value("total_steps", int64_t{0});
  first_step_.reset();
}

void Eta::step(int64_t step, MonotonicTime now) {
  if (!first_step_) {
    first_step_ = step;
    first_time_ = now;
  }
  step_ = step;
  time_ = now;
}

double Eta::seconds_left() const {
  if (!first_step_ || total_ <= 0) return NAN;
  if (step_ >= total_) return 0;
  const double elapsed = seconds_between(first_time_, time_);
  const int64_t steps = step_ - *first_step_;
  if (steps <= 0 || elapsed <= 0) return NAN;
  return static_cast<double>(total_ - step_) * elapsed / static_cast<double>(steps);
}

}  // namespace gputrain

#pragma once
// How far a run is and how long it will take, from the steps that were seen. Shared by Console and ProgressBar.
#include <cstdint>
#include <optional>

#include "sys/clock.h"
#include "util/json.h"

namespace gputrain {

class Eta {
 public:
  // A start record: takes total_steps, steps_per_epoch and resumed_step, and forgets the pace of the attempt before.
  void start(const Json& record);
  void step(int64_t step, MonotonicTime now);

  int64_t total_steps() const { return total_; }  // 0 = unknown
  // Seconds left at the mean pace since the attempt's first record (evaluations and saves included). NaN when unknown.
  double seconds_left() const;

 private:
  int64_t total_ = 0;
  std::optional<int64_t> first_step_;
  MonotonicTime first_time_{};
  int64_t step_ = 0;
  MonotonicTime time_{};
};

}  // namespace gputrain

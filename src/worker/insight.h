#pragma once
// What a training rank measures of itself: the split of its steps, its model's arithmetic, a trace.
#include <cstdint>
#include <memory>
#include <optional>

#include "train/phase.h"
#include "train/profile.h"
#include "train/record_channel.h"
#include "train/step_times.h"
#include "worker/foundation.h"

namespace gputrain {

class Insight {
 public:
  // From here on `marker` feeds it: it outlives the training. A collective operation.
  Insight(const Foundation& base, PhaseMarker& marker, RecordChannel& records);

  PhaseTimer* timer() const { return timer_.get(); }  // rank 0's; null elsewhere
  int64_t flops_per_sample() const { return flops_per_sample_; }
  std::optional<double> peak_flops() const { return peak_flops_; }  // of all ranks' devices

 private:
  int64_t flops_per_sample_;
  std::optional<double> peak_flops_;
  std::unique_ptr<PhaseTimer> timer_;
  std::unique_ptr<Profile> profile_;  // null: none is asked for
};

}  // namespace gputrain

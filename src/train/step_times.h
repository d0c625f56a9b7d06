#pragma once
// Where a step's time goes, measured by the phases that the training thread enters (train/phase.h).
#include <array>
#include <cstddef>
#include <memory>

#include <c10/core/Device.h>

#include "sys/clock.h"
#include "wire/progress_page.h"

namespace gputrain {

enum class StepPart {
  kForward,
  kBackward,
  // Exposed: what backward does not hide. From the last gradient all-reduce of a step being issued, after which no
  // backward work is left, to the optimizer: the wait for the reductions under way and for the step's vote.
  kCommunication,
  kOptimizer,   // clipping, update, and the log record
  kCheckpoint,  // writing and commit
  kOther        // the loop between steps, waiting for data included; not evaluations
};
constexpr size_t kStepParts = static_cast<size_t>(StepPart::kOther) + 1;

// Seconds.
class StepTimes {
 public:
  double& operator[](StepPart part) { return seconds_[static_cast<size_t>(part)]; }
  double operator[](StepPart part) const { return seconds_[static_cast<size_t>(part)]; }

 private:
  std::array<double, kStepParts> seconds_{};
};

// Where intervals are measured: by the host's clock or on a GPU's own time line. One thread at a time.
class Timeline {
 public:
  virtual ~Timeline() = default;
  // The interval since the last call ends here and belonged to `part`; nullopt: to nothing that is measured.
  virtual void end_interval(std::optional<StepPart> part) = 0;
  // What is known of the ended intervals and was not taken before. A GPU that is behind has some later.
  virtual StepTimes take() = 0;
};

// CPU: `clock`. GPU: events on the stream of the training thread, which nobody waits for; so what the host only
// enqueues is timed where it runs (trap 48).
std::unique_ptr<Timeline> make_timeline(at::Device device, Clock& clock);

// Fed by PhaseMarker; a transition costs one reading of the clock, or one event.
class PhaseTimer {
 public:
  explicit PhaseTimer(std::unique_ptr<Timeline> timeline) : timeline_(std::move(timeline)) {}
  void enter(Phase phase);
  // Since the last take, the phase that still runs included.
  StepTimes take();

 private:
  std::unique_ptr<Timeline> timeline_;
  Phase phase_ = Phase::kSetUp;
};

}  // namespace gputrain

#include "train/step_times.h"

#include "train/device_timeline.h"

namespace gputrain {
namespace {

class HostTimeline : public Timeline {
 public:
  explicit HostTimeline(Clock& clock) : clock_(clock), mark_(clock.now()) {}

  void end_interval(std::optional<StepPart> part) override {
    const MonotonicTime now = clock_.now();
    if (part) times_[*part] += seconds_between(mark_, now);
    mark_ = now;
  }

  StepTimes take() override { return std::exchange(times_, {}); }

 private:
  Clock& clock_;
  MonotonicTime mark_;
  StepTimes times_;
};

std::optional<StepPart> part_of(Phase phase) {
  switch (phase) {
    case Phase::kForward:
      return StepPart::kForward;
    case Phase::kBackward:
      return StepPart::kBackward;
    case Phase::kAllReduce:
      return StepPart::kCommunication;
    case Phase::kOptimizer:
      return StepPart::kOptimizer;
    case Phase::kWriting:
    case Phase::kCommit:
      return StepPart::kCheckpoint;
    case Phase::kDataWait:
      return StepPart::kOther;
    case Phase::kSetUp:
    case Phase::kEvaluation:
    case Phase::kIdle:
      break;
  }
  return std::nullopt;
}

}  // namespace

std::unique_ptr<Timeline> make_timeline(at::Device device, Clock& clock) {
  if (device.is_cpu()) return std::make_unique<HostTimeline>(clock);
  return std::make_unique<DeviceTimeline>([device] { return make_device_mark(device); });
}

// A further bucket shows that backward went on while the ones before were under way.
void PhaseTimer::enter(Phase phase) {
  const bool hidden = phase_ == Phase::kAllReduce && phase == Phase::kAllReduce;
  timeline_->end_interval(hidden ? StepPart::kBackward : part_of(phase_));
  phase_ = phase;
}

StepTimes PhaseTimer::take() {
  timeline_->end_interval(part_of(phase_));
  return timeline_->take();
}

}  // namespace gputrain

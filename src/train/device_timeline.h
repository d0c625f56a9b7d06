#pragma once
// Intervals on a GPU's own time line.
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include <c10/core/Device.h>

#include "train/step_times.h"

namespace gputrain {

// A point that a device passes: an event.
class DeviceMark {
 public:
  virtual ~DeviceMark() = default;
  virtual void record() = 0;        // behind all that the current stream has been given so far; may be called again
  virtual bool passed() const = 0;  // without waiting
  virtual double seconds_since(const DeviceMark& earlier) const = 0;  // both have been passed
};

// Over c10::Event, which reaches whatever back end is loaded: this library links no CUDA.
std::unique_ptr<DeviceMark> make_device_mark(at::Device device);

class DeviceTimeline : public Timeline {
 public:
  explicit DeviceTimeline(std::function<std::unique_ptr<DeviceMark>()> make_mark) : make_mark_(std::move(make_mark)) {}
  void end_interval(std::optional<StepPart> part) override;
  StepTimes take() override;

 private:
  struct Ended {
    std::optional<StepPart> part;
    std::unique_ptr<DeviceMark> mark;
  };
  void add_passed();
  std::unique_ptr<DeviceMark> fresh_mark();

  std::function<std::unique_ptr<DeviceMark>()> make_mark_;
  std::unique_ptr<DeviceMark> last_;  // the newest mark known to be passed; null before the first
  std::deque<Ended> ahead_;           // marks that the device may not have passed yet
  std::vector<std::unique_ptr<DeviceMark>> unused_;
  StepTimes times_;
};

}  // namespace gputrain

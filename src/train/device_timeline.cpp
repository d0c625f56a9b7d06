#include "train/device_timeline.h"

#include <utility>

#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace gputrain {
namespace {

constexpr size_t kMostAhead = 64;  // marks: some steps

class EventMark : public DeviceMark {
 public:
  explicit EventMark(at::Device device)
      : device_(device), event_(device.type(), c10::EventFlag::BACKEND_DEFAULT /* with time */) {}

  void record() override { event_.record(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_)); }
  bool passed() const override { return event_.query(); }
  double seconds_since(const DeviceMark& earlier) const override {
    return dynamic_cast<const EventMark&>(earlier).event_.elapsedTime(event_) / 1000;
  }

 private:
  at::Device device_;
  c10::Event event_;
};

}  // namespace

std::unique_ptr<DeviceMark> make_device_mark(at::Device device) {
  return std::make_unique<EventMark>(device);
}

void DeviceTimeline::end_interval(std::optional<StepPart> part) {
  if (ahead_.size() >= kMostAhead) add_passed();
  ahead_.push_back({part, fresh_mark()});
  ahead_.back().mark->record();
}

StepTimes DeviceTimeline::take() {
  add_passed();
  return std::exchange(times_, {});
}

void DeviceTimeline::add_passed() {
  while (!ahead_.empty() && ahead_.front().mark->passed()) {
    Ended ended = std::move(ahead_.front());
    ahead_.pop_front();
    if (last_ && ended.part) times_[*ended.part] += ended.mark->seconds_since(*last_);
    if (last_) unused_.push_back(std::move(last_));
    last_ = std::move(ended.mark);
  }
}

std::unique_ptr<DeviceMark> DeviceTimeline::fresh_mark() {
  if (unused_.empty()) return make_mark_();
  std::unique_ptr<DeviceMark> mark = std::move(unused_.back());
  unused_.pop_back();
  return mark;
}

}  // namespace gputrain

#include "train/phase.h"

#include <chrono>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include "util/error.h"
#include "util/units.h"

namespace gputrain {

Hold parse_hold(const std::string& text) {
  const size_t at_sign = text.find('@');
  Hold hold;
  std::optional<int64_t> step;
  if (at_sign != std::string::npos) step = parse_int(text.substr(at_sign + 1));
  if (!step || *step < 0 || !phase_from(text.substr(0, at_sign), &hold.phase)) {
    throw Error(ErrorKind::kUsage, "\"" + text + "\" is not a place to hold at", "",
                "write phase@step, as in backward@12");
  }
  hold.step = static_cast<uint64_t>(*step);
  return hold;
}

PhaseMarker::PhaseMarker(ProgressPage* page, const StopSource& stop, std::optional<Hold> hold)
    : page_(page), stop_(stop), hold_(std::move(hold)) {}

void PhaseMarker::enter(Phase phase, int64_t step) {
  step_ = step;
  if (page_ != nullptr) {
    page_->step.store(static_cast<uint64_t>(step), std::memory_order_relaxed);
    page_->phase.store(static_cast<uint32_t>(phase), std::memory_order_relaxed);
  }
  for (const auto& watcher : watchers_) watcher(phase, step);
  if (hold_ && hold_->phase == phase && hold_->step == static_cast<uint64_t>(step)) wait_here();
}

void PhaseMarker::enter_all_reduce() {
  if (page_ != nullptr) {
    page_->collectives.store(page_->collectives.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  enter(Phase::kAllReduce, step_);
}

void PhaseMarker::wait_here() {
  if (!hold_->once_path.empty()) {
    const int fd = ::open(hold_->once_path.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
    if (fd < 0) {
      hold_.reset();
      return;
    }
    ::close(fd);
  }
  while (!stop_.raised()) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  hold_.reset();
}

}  // namespace gputrain

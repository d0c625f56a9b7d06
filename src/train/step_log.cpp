#include "train/step_log.h"

#include <algorithm>

namespace gputrain {

void StepLog::add(double step_s, double data_wait_s, int64_t samples) {
  step_s_ += step_s;
  data_wait_s_ += data_wait_s;
  samples_ += samples;
  ++steps_;
}

void StepLog::write(const TrainState& state, const StepResult& result) {
  StepRecord record;
  record.step = state.counters.step;
  record.updates = state.counters.updates;
  record.epoch = static_cast<double>(state.counters.step) / static_cast<double>(scale_.steps_per_epoch);
  record.loss = result.loss;
  record.lr = result.lr;
  record.grad_norm = result.grad_norm;
  record.samples_per_s = step_s_ > 0 ? static_cast<double>(samples_) / step_s_ : 0;
  record.data_wait_s = data_wait_s_;
  record.step_s = step_s_ / static_cast<double>(steps_);
  record.scale = state.scaler.current();
  record.skipped = state.counters.skipped;
  add_split(record);
  records_.send(to_json(record));
  step_s_ = data_wait_s_ = 0;
  samples_ = steps_ = 0;
}

// Parts of the step that nobody asked the time of are "other", a wait for data is its own.
void StepLog::add_split(StepRecord& record) const {
  if (scale_.peak_flops)
    record.mfu = record.samples_per_s * static_cast<double>(scale_.flops_per_sample) / *scale_.peak_flops;
  if (timer_ == nullptr) return;
  const StepTimes times = timer_->take();
  record.forward_s = times[StepPart::kForward];
  record.backward_s = times[StepPart::kBackward];
  record.exposed_communication_s = times[StepPart::kCommunication];
  record.optimizer_s = times[StepPart::kOptimizer];
  record.other_s = std::max(0.0, times[StepPart::kOther] - data_wait_s_);
  record.checkpoint_s = times[StepPart::kCheckpoint];
}

}  // namespace gputrain

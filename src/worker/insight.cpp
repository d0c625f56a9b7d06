#include "worker/insight.h"

#include "monitor/record.h"
#include "sys/clock.h"
#include "train/flops.h"

namespace gputrain {
namespace {

ProfileOptions profile_options(const Foundation& base, RecordChannel& records) {
  ProfileOptions options;
  options.first = base.plan.profile.front();
  options.last = base.plan.profile.back();
  options.path = profile_path(base.plan.output, base.assign.attempt, base.assign.rank);
  options.gpu = base.cuda != nullptr;
  options.warn = [&records](const std::string& text) { records.send(warning_record(text)); };
  return options;
}

}  // namespace

Insight::Insight(const Foundation& base, PhaseMarker& marker, RecordChannel& records)
    : flops_per_sample_(kForwardsPerStep * base.forward_flops),
      peak_flops_(
          total_peak_flops(*base.comms.control, gputrain::peak_flops(base.device_name, base.plan.train.precision))) {
  if (base.assign.rank == 0) {
    timer_ = std::make_unique<PhaseTimer>(make_timeline(base.device, real_clock()));
    marker.watch([timer = timer_.get()](Phase phase, int64_t) { timer->enter(phase); });
  }
  if (base.plan.profile.empty()) return;
  profile_ = std::make_unique<Profile>(real_file_system(), profile_options(base, records));
  marker.watch([profile = profile_.get()](Phase phase, int64_t step) { profile->enter(phase, step); });
}

}  // namespace gputrain

#include "dist/counting_process_group.h"

namespace gputrain {

CountingProcessGroup::CountingProcessGroup(c10d::ProcessGroup& inner, std::function<void()> on_all_reduce)
    : c10d::ProcessGroup(inner.getRank(), inner.getSize()), on_all_reduce_(std::move(on_all_reduce)) {
  for (const auto& device : inner.getDeviceTypes()) {
    setBackend(device.type(), inner.getBackendType(), inner.getBackend(device.type()));
  }
  setDefaultBackend(inner.getBackendType());
}

c10::intrusive_ptr<c10d::Work> CountingProcessGroup::allreduce(std::vector<at::Tensor>& tensors,
                                                               const c10d::AllreduceOptions& options) {
  all_reduces_.fetch_add(1, std::memory_order_relaxed);
  if (on_all_reduce_) on_all_reduce_();
  return c10d::ProcessGroup::allreduce(tensors, options);
}

c10::intrusive_ptr<CountingProcessGroup> make_counting_process_group(c10d::ProcessGroup& inner,
                                                                     std::function<void()> on_all_reduce) {
  return c10::make_intrusive<CountingProcessGroup>(inner, std::move(on_all_reduce));
}

}  // namespace gputrain

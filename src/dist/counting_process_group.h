#pragma once
#include <atomic>
#include <functional>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

namespace gputrain {

// A process group over another one's back end that counts what c10d::Reducer sends. A communication hook could count
// too, but must then divide by the world size itself, which changes the arithmetic.
class CountingProcessGroup : public c10d::ProcessGroup {
 public:
  // `on_all_reduce` may be empty; it runs on the thread that issues the all-reduce, before it.
  CountingProcessGroup(c10d::ProcessGroup& inner, std::function<void()> on_all_reduce);

  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>& tensors,
                                           const c10d::AllreduceOptions& options) override;

  int64_t all_reduces() const { return all_reduces_.load(std::memory_order_relaxed); }

 private:
  std::function<void()> on_all_reduce_;
  std::atomic<int64_t> all_reduces_{0};  // issued on the backward thread, read on the loop's
};

c10::intrusive_ptr<CountingProcessGroup> make_counting_process_group(c10d::ProcessGroup& inner,
                                                                     std::function<void()> on_all_reduce);

}  // namespace gputrain

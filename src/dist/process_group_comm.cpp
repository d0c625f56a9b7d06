#include "dist/process_group_comm.h"

#include <cstring>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/distributed/c10d/comm.hpp>

#include "dist/collective_error.h"
#include "dist/exchange_sum.h"

namespace gputrain {
namespace {

constexpr size_t kBroadcastChunkBytes = 250 << 20;  // DDP's size for the first broadcast of a model

class ProcessGroupComm : public Comm {
 public:
  ProcessGroupComm(c10::intrusive_ptr<c10d::ProcessGroup> group, at::Device device, std::chrono::milliseconds timeout)
      : group_(std::move(group)), backend_(group_->getBackend(device.type())), device_(device), timeout_(timeout) {}

  int rank() const override { return group_->getRank(); }
  int world_size() const override { return group_->getSize(); }
  c10::intrusive_ptr<c10d::ProcessGroup> process_group() override { return group_; }

  void all_reduce_sum(at::Tensor& tensor) override { start_all_reduce_sum(tensor)(); }

  std::function<void()> start_all_reduce_sum(at::Tensor& tensor) override {
    at::Tensor sent = staged(tensor);
    std::function<void()> wait;
    run_collective("all-reduce", [&] { wait = start_sum(sent); });
    return [wait, sent, tensor] {
      run_collective("all-reduce", wait);
      unstage(sent, tensor);
    };
  }

  void broadcast(at::Tensor& tensor, int root) override {
    const at::Tensor sent = staged(tensor);
    run_collective("broadcast", [&] {
      std::vector<at::Tensor> tensors{sent};
      c10d::BroadcastOptions options;
      options.rootRank = root;
      backend_->broadcast(tensors, options)->wait();
    });
    unstage(sent, tensor);
  }

  void broadcast_all(std::vector<at::Tensor> tensors, int root) override {
    const at::NoGradGuard no_grad;
    std::vector<at::Tensor> sent;
    sent.reserve(tensors.size());
    for (const auto& tensor : tensors) sent.push_back(tensor.detach().to(device_));
    run_collective("broadcast", [&] { c10d::broadcast_coalesced(group_, sent, kBroadcastChunkBytes, root); });
    for (size_t i = 0; i < tensors.size(); ++i) unstage(sent[i], tensors[i]);
  }

  std::string broadcast_bytes(const std::string& bytes, int root) override {
    at::Tensor size = at::tensor(static_cast<int64_t>(bytes.size()), at::kLong);
    broadcast(size, root);
    std::string text = rank() == root ? bytes : std::string(static_cast<size_t>(size.item<int64_t>()), '\0');
    if (text.empty()) return text;
    at::Tensor data = at::from_blob(text.data(), {static_cast<int64_t>(text.size())}, at::kByte);
    broadcast(data, root);
    return text;
  }

  void barrier() override {
    c10d::BarrierOptions options;
    if (device_.has_index()) options.device_ids = {device_.index()};
    run_collective("barrier", [&] { backend_->barrier(options)->wait(); });
  }

 private:
  // Calls the back end itself, past the process group's dispatcher: some microseconds a call.
  std::function<void()> start_sum(at::Tensor& tensor) {
    if (device_.is_cpu() && tensor.nbytes() <= kExchangeSumBytes)
      return start_exchange_sum(*backend_, tensor, timeout_);
    std::vector<at::Tensor> tensors{tensor};
    return [work = backend_->allreduce(tensors)] { work->wait(); };
  }

  at::Tensor staged(const at::Tensor& tensor) const { return tensor.detach().to(device_).contiguous(); }

  static void unstage(const at::Tensor& sent, const at::Tensor& tensor) {
    if (sent.data_ptr() == tensor.data_ptr()) return;
    const at::NoGradGuard no_grad;
    tensor.detach().copy_(sent);
  }

  c10::intrusive_ptr<c10d::ProcessGroup> group_;
  c10::intrusive_ptr<c10d::Backend> backend_;
  at::Device device_;
  std::chrono::milliseconds timeout_;
};

}  // namespace

c10::intrusive_ptr<c10d::ProcessGroup> make_process_group(const c10::intrusive_ptr<c10d::Backend>& backend,
                                                          c10d::ProcessGroup::BackendType type,
                                                          c10::DeviceType device) {
  auto group = c10::make_intrusive<c10d::ProcessGroup>(backend->getRank(), backend->getSize());
  group->setBackend(device, type, backend);
  group->setDefaultBackend(type);
  return group;
}

std::shared_ptr<Comm> make_process_group_comm(c10::intrusive_ptr<c10d::ProcessGroup> group, at::Device device,
                                              std::chrono::milliseconds timeout) {
  return std::make_shared<ProcessGroupComm>(std::move(group), device, timeout);
}

}  // namespace gputrain

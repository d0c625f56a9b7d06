#include "dist/comm.h"

#include <c10/util/Exception.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "dist/backend_registry.h"
#include "dist/collective_error.h"
#include "dist/comm_gloo.h"
#include "dist/comm_single.h"
#include "dist/process_group_comm.h"
#include "dist/rendezvous.h"
#include "util/error.h"

namespace gputrain {
namespace {

using StorePtr = c10::intrusive_ptr<c10d::Store>;

// DDP's number. With a single one a collective took 2-4 ms instead of 0.2 ms on a busy machine (measured on
// Linux 6.18).
constexpr int kGlooThreads = 2;

StorePtr sub_store(const StorePtr& store, const std::string& name) {
  return c10::make_intrusive<c10d::PrefixStore>(name, store);
}

std::shared_ptr<Comm> make_gloo_comm(const StorePtr& store, const CommOptions& options, const GlooDevice& device) {
  auto group = make_process_group(make_gloo_backend(store, options, device, kGlooThreads),
                                  c10d::ProcessGroup::BackendType::GLOO, c10::DeviceType::CPU);
  return make_process_group_comm(std::move(group), at::kCPU, options.timeout);
}

std::shared_ptr<Comm> make_nccl_comm(const StorePtr& store, const CommOptions& options) {
  c10::intrusive_ptr<c10d::ProcessGroup> group;
  try {
    options.cuda->set_device(options.device);
    group = make_process_group(
        options.cuda->make_nccl(store, options.rank, options.world_size, options.device, options.timeout),
        c10d::ProcessGroup::BackendType::NCCL, c10::DeviceType::CUDA);
  } catch (const c10::Error& error) {
    throw Error(ErrorKind::kEnvironment, "NCCL cannot start: " + short_reason(error.what_without_backtrace()),
                "GPU " + std::to_string(options.device));
  }
  return make_process_group_comm(std::move(group), at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(options.device)),
                                 options.timeout);
}

void check_nccl_options(const CommOptions& options) {
  if (!options.nccl) return;
  if (options.cuda == nullptr) {
    throw Error(ErrorKind::kEnvironment, "the nccl back end needs libgputrain_cuda.so, which is not loaded", "",
                "build with the CUDA wheels, or set launch.backend: gloo");
  }
  GP_CHECK(options.device >= 0, "the nccl back end needs a device index");
}

}  // namespace

Comms make_comms(const CommOptions& options) {
  GP_CHECK(options.world_size >= 1 && options.rank >= 0 && options.rank < options.world_size, "rank out of range");
  check_nccl_options(options);
  if (options.world_size == 1 && !options.group_of_one) return {make_single_comm(), make_single_comm()};
  const StorePtr store = join_store(options);
  const GlooDevice device = make_gloo_device(options);
  Comms comms;
  comms.control = make_gloo_comm(sub_store(store, "control"), options, device);
  const StorePtr gradients = sub_store(store, "gradients");
  comms.gradients = options.nccl ? make_nccl_comm(gradients, options) : make_gloo_comm(gradients, options, device);
  // Rank 0 serves the store and may leave early, so nobody goes on before all are done with it (NCCL's communicator is
  // made by its first collective).
  comms.gradients->barrier();
  comms.control->barrier();
  return comms;
}

}  // namespace gputrain

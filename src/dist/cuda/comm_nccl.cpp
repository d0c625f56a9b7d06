#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "dist/cuda/nccl.h"

namespace gputrain {

// ncclConfig_t sits by value in the options: another version's nccl.h would shift every member after it.
static_assert(NCCL_MAJOR == 2 && NCCL_MINOR == 28,
              "nccl.h must be the one of the wheel that torch 2.11 was built with");

c10::intrusive_ptr<c10d::Backend> make_nccl_backend(const c10::intrusive_ptr<c10d::Store>& store, int rank,
                                                    int world_size, int device, std::chrono::milliseconds timeout) {
  auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = timeout;
  auto backend = c10::make_intrusive<c10d::ProcessGroupNCCL>(store, rank, world_size, options);
  backend->setBoundDeviceId(at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(device)));
  return backend;
}

}  // namespace gputrain

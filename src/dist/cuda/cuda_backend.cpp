// The one entry of libgputrain_cuda.so. Needs no symbol of the worker, and no nvcc.
#include <ATen/ATen.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda_runtime_api.h>
#include <nccl.h>

#include "dist/backend_registry.h"
#include "dist/cuda/nccl.h"

namespace gputrain {
namespace {

class WheelCudaBackend : public CudaBackend {
 public:
  int device_count() const override { return c10::cuda::device_count(); }
  void set_device(int device) const override { c10::cuda::set_device(static_cast<c10::DeviceIndex>(device)); }

  void synchronize(int device) const override {
    const c10::cuda::CUDAGuard guard(static_cast<c10::DeviceIndex>(device));
    c10::cuda::device_synchronize();
  }

  std::string device_name(int device) const override {
    cudaDeviceProp properties{};
    C10_CUDA_CHECK(cudaGetDeviceProperties(&properties, device));
    return properties.name;
  }

  std::string cuda_version() const override {
    int version = 0;
    C10_CUDA_CHECK(cudaRuntimeGetVersion(&version));
    return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
  }

  std::string nccl_version() const override {
    int version = 0;
    TORCH_CHECK(ncclGetVersion(&version) == ncclSuccess, "ncclGetVersion failed");
    return std::to_string(version / 10000) + "." + std::to_string(version % 10000 / 100) + "." +
           std::to_string(version % 100);
  }

  at::Tensor pinned_empty(const std::vector<int64_t>& sizes, at::ScalarType dtype) const override {
    return at::empty(sizes, at::TensorOptions().dtype(dtype).pinned_memory(true));
  }

  c10::intrusive_ptr<c10d::Backend> make_nccl(const c10::intrusive_ptr<c10d::Store>& store, int rank, int world_size,
                                              int device, std::chrono::milliseconds timeout) const override {
    return make_nccl_backend(store, rank, world_size, device, timeout);
  }
};

}  // namespace
}  // namespace gputrain

extern "C" __attribute__((visibility("default"))) const gputrain::CudaBackend* gputrain_cuda_backend(int abi) {
  static const gputrain::WheelCudaBackend backend;
  return abi == gputrain::kCudaBackendAbi ? &backend : nullptr;
}

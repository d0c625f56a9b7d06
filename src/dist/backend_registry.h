#pragma once
// What libgputrain_cuda.so offers to a worker. A worker links torch_cpu only and loads the library with dlopen when its
// device is a GPU: torch_cuda would cost every CPU rank 0.15 s and 235 MB.
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

namespace c10d {
class Backend;
class Store;
}  // namespace c10d

namespace gputrain {

// Grows with every change of CudaBackend: a library of another build is refused instead of called.
constexpr int kCudaBackendAbi = 1;

// Implemented in the library, called through its vtable: the library needs no symbol of the worker. Thread-safe. Errors
// are c10::Error (torch's own text). After loading, ATen itself works on CUDA too (at::empty(..., at::kCUDA)).
class CudaBackend {
 public:
  virtual ~CudaBackend() = default;
  virtual int device_count() const = 0;
  virtual void set_device(int device) const = 0;  // of the calling thread
  virtual void synchronize(int device) const = 0;
  virtual std::string device_name(int device) const = 0;
  virtual std::string cuda_version() const = 0;  // of the runtime: "13.0"
  virtual std::string nccl_version() const = 0;  // "2.28.9"
  // Page-locked host memory, for copies that run beside the GPU's work.
  virtual at::Tensor pinned_empty(const std::vector<int64_t>& sizes, at::ScalarType dtype) const = 0;
  virtual c10::intrusive_ptr<c10d::Backend> make_nccl(const c10::intrusive_ptr<c10d::Store>& store, int rank,
                                                      int world_size, int device,
                                                      std::chrono::milliseconds timeout) const = 0;
};

// The library's one exported symbol: null when `abi` is not its own.
using CudaBackendEntry = const CudaBackend* (*)(int abi);
constexpr const char* kCudaBackendSymbol = "gputrain_cuda_backend";

// Loads the library (once a process; it stays loaded). Throws Error(kEnvironment): no such file, a missing CUDA library
// (named), not our library, or one of another build.
const CudaBackend& load_cuda_backend(const std::string& path);

}  // namespace gputrain

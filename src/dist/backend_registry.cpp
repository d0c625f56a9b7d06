#include "dist/backend_registry.h"

#include <dlfcn.h>

#include "util/error.h"

namespace gputrain {

const CudaBackend& load_cuda_backend(const std::string& path) {
  // RTLD_GLOBAL: NCCL and the CUDA libraries find each other's symbols, as they do when linked.
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) {
    throw Error(ErrorKind::kEnvironment, std::string("cannot load the CUDA back end: ") + ::dlerror(), path,
                "install the CUDA wheels of this LibTorch, or train on the CPU (launch.backend: gloo)");
  }
  const auto entry = reinterpret_cast<CudaBackendEntry>(::dlsym(library, kCudaBackendSymbol));
  if (entry == nullptr) throw Error(ErrorKind::kEnvironment, "is not gputrain's CUDA back end", path);
  const CudaBackend* backend = entry(kCudaBackendAbi);
  if (backend == nullptr) {
    throw Error(ErrorKind::kEnvironment, "belongs to another build of gputrain", path, "install both from one build");
  }
  return *backend;
}

}  // namespace gputrain

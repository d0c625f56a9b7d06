#include "dist/backend_registry.h"

#include <filesystem>
#include <fstream>

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "util/error.h"

namespace gputrain::test {
namespace {

using ::testing::HasSubstr;

Error load_error(const std::string& path) {
  try {
    load_cuda_backend(path);
  } catch (const Error& error) {
    return error;
  }
  return Error(ErrorKind::kInternal, "loaded");
}

TEST(BackendRegistry, AMissingLibraryIsAnEnvironmentError) {
  const Error error = load_error("/nonexistent/libgputrain_cuda.so");
  EXPECT_EQ(error.kind, ErrorKind::kEnvironment);
  EXPECT_THAT(error.render(), HasSubstr("/nonexistent/libgputrain_cuda.so"));
  EXPECT_THAT(error.hint, HasSubstr("launch.backend: gloo"));
}

TEST(BackendRegistry, AForeignLibraryIsRefused) {
  const Error error = load_error("libm.so.6");
  EXPECT_EQ(error.kind, ErrorKind::kEnvironment);
  EXPECT_THAT(error.message, HasSubstr("is not gputrain's CUDA back end"));
}

// Where the CUDA library was built: it loads, or names the CUDA library that this machine lacks. A build without CUDA
// (GPUTRAIN_CUDA=OFF, or AUTO without its headers) has nothing to load: that is what the skip says.
TEST(BackendRegistry, TheBuiltLibraryLoadsOrNamesWhatIsMissing) {
  const std::string path = std::string(GPUTRAIN_BINARY_DIR) + "/libgputrain_cuda.so";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "built without CUDA";
  try {
    const CudaBackend& backend = load_cuda_backend(path);
    EXPECT_EQ(backend.nccl_version().substr(0, 2), "2.");
    EXPECT_EQ(&backend, &load_cuda_backend(path));
    const auto entry =
        reinterpret_cast<CudaBackendEntry>(::dlsym(::dlopen(path.c_str(), RTLD_NOW), kCudaBackendSymbol));
    EXPECT_EQ(entry(kCudaBackendAbi + 1), nullptr);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind, ErrorKind::kEnvironment);
    EXPECT_THAT(error.message, HasSubstr("cannot open shared object file"));
    EXPECT_EQ(error.message.find("undefined symbol"), std::string::npos) << error.message;
  }
}

// Loaded only on demand: a CPU rank must not pay for torch_cuda.
TEST(BackendRegistry, AProgramOfThisModuleDoesNotLoadTorchCuda) {
  std::ifstream maps("/proc/self/maps");
  const std::string text((std::istreambuf_iterator<char>(maps)), std::istreambuf_iterator<char>());
  EXPECT_THAT(text, HasSubstr("libtorch_cpu.so"));
  if (::dlopen("libtorch_cuda.so", RTLD_NOLOAD | RTLD_NOW) == nullptr) {
    EXPECT_EQ(text.find("libtorch_cuda.so"), std::string::npos);
  }
}

}  // namespace
}  // namespace gputrain::test

#include "train/memory.h"

#include <new>

#include <c10/util/Exception.h>

#include "dist/collective_error.h"

namespace gputrain {
namespace {

constexpr char kCpuAllocator[] = "DefaultCPUAllocator: ";

// From the allocator's name on: before it stands the condition that failed.
std::string reason_of(const c10::Error& error) {
  std::string reason = short_reason(error.what_without_backtrace());
  const size_t at = reason.find(kCpuAllocator);
  return at == std::string::npos ? reason : reason.substr(at);
}

}  // namespace

std::string first_line(const c10::Error& error) {
  const std::string text = error.what_without_backtrace();
  return text.substr(0, text.find('\n'));
}

bool is_out_of_memory(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return true;
  if (dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr) return true;
  const auto* torch = dynamic_cast<const c10::Error*>(&error);
  if (torch == nullptr) return false;
  const std::string text = torch->what_without_backtrace();
  for (const char* sign : {kCpuAllocator, "CUBLAS_STATUS_ALLOC_FAILED", "CUDA error: out of memory"}) {
    if (text.find(sign) != std::string::npos) return true;
  }
  return false;
}

Error out_of_memory(const std::exception& error, const std::string& what, const std::string& where,
                    const std::string& hint) {
  const auto* torch = dynamic_cast<const c10::Error*>(&error);
  return {ErrorKind::kOutOfMemory, "no memory left for " + what + (torch ? ": " + reason_of(*torch) : ""), where, hint};
}

}  // namespace gputrain

#include "model/script_error.h"

#include <memory>
#include <string>
#include <string_view>

#include <c10/util/Exception.h>
#include <c10/util/Lazy.h>

#include "util/text.h"

namespace gputrain {
namespace {

// LibTorch's own words, of the one version that is supported.
constexpr std::string_view kInterpreter = "The following operation failed in the TorchScript interpreter.";
constexpr std::string_view kClass = "RuntimeError: ";  // of what an operation throws, after the stack

// Types that are lost on the way: LibTorch's allocators, cuBLAS, the standard library.
constexpr std::string_view kMemorySigns[] = {"DefaultCPUAllocator: ", "CUDA out of memory", "CUDA error: out of memory",
                                             "CUBLAS_STATUS_ALLOC_FAILED", "std::bad_alloc"};

// The first line of the operation's message; of a `raise` in the script its last line.
std::string reason_in(const std::string& text) {
  std::string reason, last;
  for (const std::string& line : split(text, '\n')) {
    if (line.starts_with(kClass)) reason = line.substr(kClass.size());
    if (line.find_first_not_of(' ') != std::string::npos) last = line;
  }
  return reason.empty() ? last : reason;
}

bool is_lack_of_memory(const std::string& reason) {
  for (const std::string_view sign : kMemorySigns) {
    if (reason.find(sign) != std::string::npos) return true;
  }
  return false;
}

}  // namespace

void rethrow_from_script(const std::exception& error) {
  const auto* torch = dynamic_cast<const c10::Error*>(&error);
  const std::string text = torch != nullptr ? torch->what_without_backtrace() : error.what();
  if (text.find(kInterpreter) == std::string::npos) throw;
  const std::string reason = reason_in(text);
  const auto stack = std::make_shared<c10::PrecomputedLazyValue<std::string>>(text);
  if (is_lack_of_memory(reason)) throw c10::OutOfMemoryError(reason, stack);
  throw c10::Error(reason, stack);
}

}  // namespace gputrain

#pragma once
#include <exception>

namespace gputrain {

// Throws again what a TorchScript call threw, as an operation of our own models would have thrown it. The interpreter
// turns everything into a std::runtime_error or a torch::jit::JITException, whose text begins with the script's stack:
// shapes that do not fit and exhausted memory would pass for faults of this program. c10::OutOfMemoryError for the
// latter, else c10::Error, with the reason alone as message; the stack is in what(), for logs. Errors that did not pass
// through the interpreter stay what they are.
[[noreturn]] void rethrow_from_script(const std::exception& error);

}  // namespace gputrain

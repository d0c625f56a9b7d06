#pragma once
// Running out of memory, of the host's or a GPU's, as an Error that says for what and what to do.
#include <exception>
#include <string>

#include <c10/util/Exception.h>

#include "util/error.h"

namespace gputrain {

// std::bad_alloc, c10::OutOfMemoryError, and what LibTorch throws without that type: its CPU allocator, cuBLAS.
bool is_out_of_memory(const std::exception& error);

// Error(kOutOfMemory): "no memory left for <what>: <the library's own line>".
Error out_of_memory(const std::exception& error, const std::string& what, const std::string& where,
                    const std::string& hint);

// What the library says, without the lines about its own insides.
std::string first_line(const c10::Error& error);

// Runs `body`, a forward pass and its loss on what `what()` names: a failure of the model's own code is an Error(kSpec)
// with the library's line, not a fault of this program. Out of memory and Errors pass.
template <typename What, typename Body>
auto of_the_model(What what, Body body) -> decltype(body()) {
  try {
    return body();
  } catch (const c10::Error& error) {
    if (is_out_of_memory(error)) throw;
    throw Error(ErrorKind::kSpec, "the model fails on " + what() + ": " + first_line(error), "model",
                "look at these samples, and at the model's code");
  }
}

// Runs `body`, whose passes of `micro_batch` samples on `rank` take the memory that can be saved.
template <typename Body>
auto with_memory_for(int64_t micro_batch, int rank, const std::string& where, Body body) -> decltype(body()) {
  try {
    return body();
  } catch (const std::exception& error) {
    if (!is_out_of_memory(error)) throw;
    throw out_of_memory(
        error, "a micro-batch of " + std::to_string(micro_batch) + " on rank " + std::to_string(rank), where,
        micro_batch > 1
            ? "set train.micro_batch below " + std::to_string(micro_batch) + ": less memory, the same global batch"
            : "use a smaller model or input, or train.precision bf16");
  }
}

}  // namespace gputrain

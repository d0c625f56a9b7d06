#pragma once
// Turns the exceptions of the communication libraries into ours.
#include <functional>
#include <string>

namespace gputrain {

// Runs `body`. An exception of the communication layer (gloo, NCCL, the store) becomes Error(kPeerLost) that names
// `operation`; every other exception (out of memory, an Error) passes unchanged. Backward must run in here:
// c10d::Reducer throws from inside it.
void run_collective(const std::string& operation, const std::function<void()>& body);

// The first line of a library's message without its "[file:line]" prefix: what people can use.
std::string short_reason(const std::string& message);

}  // namespace gputrain

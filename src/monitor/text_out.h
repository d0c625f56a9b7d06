#pragma once
#include <string_view>

namespace gputrain {

// Writes what the descriptor takes without blocking (a pipe nobody reads must not stop heartbeats) and drops the rest;
// errors, also EPIPE, are ignored. SIGPIPE must be ignored by the process.
void write_quietly(int fd, std::string_view text);

}  // namespace gputrain

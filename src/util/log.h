#pragma once
// Diagnostics of a process (not its results): one line each on stderr, "HH:MM:SS.mmm LEVEL who: text". Behind spdlog.
#include <string>
#include <string_view>

namespace gputrain {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

// Names this process in its lines ("rank 3", "agent gpu-1") and sets the lowest level shown. Call once, before threads.
void set_up_log(std::string who, LogLevel lowest = LogLevel::kInfo);

void log_line(LogLevel level, std::string_view text);

}  // namespace gputrain

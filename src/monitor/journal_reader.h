#pragma once
// Reading events.jsonl back. A long run writes gigabytes of step records: only its head and its tail are read, a piece
// at a time.
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "sys/fs.h"

namespace gputrain {

inline constexpr int64_t kJournalTail = int64_t{64} << 20;  // hundreds of thousands of records

// The first line, "" when there is none (or more than 64 KiB without an end).
std::string first_line(FileSystem& fs, const std::string& path);

// Calls `take` for each line in the last `tail` bytes, oldest first; a line that the tail cuts is left out, the last
// one may be torn. A missing file has no lines. Throws Error(kOutput) when the file cannot be read.
void read_tail(FileSystem& fs, const std::string& path, const std::function<void(std::string_view line)>& take,
               int64_t tail = kJournalTail);

}  // namespace gputrain

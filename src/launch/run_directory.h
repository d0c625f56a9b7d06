#pragma once
#include <string>

#include "sys/fs.h"

namespace gputrain {

// The name of something in `output` that a run would replace and that no run of ours wrote: the directory has neither
// our lock nor our plan, events or checkpoints. Else "". What a run does not touch (a scheduler's log, data) may stand
// there, and so may an empty directory (checkpoints/ as a mount point, or a link to a larger disk).
std::string foreign_entry(FileSystem& fs, const std::string& output);

}  // namespace gputrain

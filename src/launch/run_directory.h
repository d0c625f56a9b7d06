#pragma once
#include <string>

#include "sys/fs.h"

namespace gputrain {

// The name of something in `output` when the directory is no run's: it is not empty, and has neither our lock nor our
// plan, events or checkpoints. Else "", also when there is no such directory.
std::string foreign_entry(FileSystem& fs, const std::string& output);

}  // namespace gputrain

#pragma once
#include <cstdint>

namespace gputrain {

// Which part of a set of equals this process has: a rank in its world, an evaluation shard. 0 <= index < count.
struct Shard {
  int index = 0;
  int count = 1;
};

}  // namespace gputrain

#pragma once
// Which source pixel each output pixel shows: flips and crops composed into one affine map an axis, so that any chain
// of them is a single copy with no image in between.
#include <algorithm>
#include <cstdint>

namespace gputrain {

// Output coordinate o in [begin, end) shows source coordinate start + step * o; every other o in [0, size) is padding.
struct AxisView {
  int64_t start = 0;
  int64_t step = 1;  // 1 or -1
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size = 0;

  static AxisView whole(int64_t size) { return {.end = size, .size = size}; }

  void flip() {
    start += step * (size - 1);
    step = -step;
    std::swap(begin, end);
    begin = size - begin;
    end = size - end;
  }

  // Keeps `length` coordinates from `offset` on; what lies outside [0, size) becomes padding.
  void crop(int64_t offset, int64_t length) {
    start += step * offset;
    begin = std::clamp<int64_t>(begin - offset, 0, length);
    end = std::clamp<int64_t>(end - offset, begin, length);
    size = length;
  }
};

struct ImageView {
  AxisView y;
  AxisView x;
};

}  // namespace gputrain

#pragma once
// Integers of a data file, widened to what a batch holds.
#include <cstdint>
#include <span>

#include <ATen/core/Tensor.h>

namespace gputrain {

// Reads values.size() little-endian integers of `type` (uint8 to int64, uint16 and uint32 among them) at `from`, which
// may be the last bytes of `values` itself: what is read into the end of a row is widened in place.
void widen(at::ScalarType type, const void* from, std::span<int64_t> values);
void widen(at::ScalarType type, const void* from, std::span<double> values);  // rounded above 2^53

// The bytes at the end of `values` where integers of `type` belong to be widened in place.
template <typename T>
std::span<char> tail_for(at::ScalarType type, std::span<T> values) {
  const size_t bytes = values.size() * at::elementSize(type);
  return {reinterpret_cast<char*>(values.data() + values.size()) - bytes, bytes};
}

}  // namespace gputrain

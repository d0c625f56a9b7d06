#pragma once
// A fast hash of data, for fingerprints: not cryptographic, the same on every machine.
#include <cstdint>
#include <functional>
#include <span>
#include <string>

namespace gputrain {

// 16 hex digits from the size and from at most 64 blocks of 64 KiB spread evenly over the content, first and last
// included: all of it up to 4 MiB. `read(offset, out)` fills `out`.
std::string sampled_hash(int64_t size, const std::function<void(int64_t offset, std::span<char> out)>& read);

}  // namespace gputrain

// SampleOrder: a keyed permutation by a balanced Feistel network over the smallest power of four >= size; positions
// that leave [0, size) are walked along their cycle until they are inside again (Black and Rogaway 2002, "Ciphers with
// arbitrary finite domains").
//
// The table of ids is a contract: a checkpoint of one version continues under the next. tests/unit/data/order_test.cpp
// freezes it.
#include "data/loader.h"
#include "util/error.h"
#include "util/random.h"

namespace gputrain {
namespace {

// Four rounds are enough for a large domain; halves of one or two bits need more to look random.
constexpr uint64_t kRounds = 8;

}  // namespace

SampleOrder::SampleOrder(int64_t size, uint64_t seed, int64_t epoch, bool shuffle)
    : size_(size),
      key_(derive_seed(RandomDomain::kOrder, seed, static_cast<uint64_t>(epoch), 0)),
      half_bits_(1),
      shuffle_(shuffle) {
  GP_CHECK(size >= 0 && size <= int64_t{1} << 60, "size of an order");
  while ((int64_t{1} << (2 * half_bits_)) < size) ++half_bits_;
}

int64_t SampleOrder::operator[](int64_t position) const {
  GP_CHECK(position >= 0 && position < size_, "position " + std::to_string(position) + " of " + std::to_string(size_));
  if (!shuffle_) return position;
  const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  auto value = static_cast<uint64_t>(position);
  do {
    uint64_t left = value >> half_bits_, right = value & mask;
    for (uint64_t round = 0; round < kRounds; ++round) {
      const uint64_t next = left ^ (mix64(key_ + (round << 32 | right)) & mask);
      left = right;
      right = next;
    }
    value = left << half_bits_ | right;
  } while (value >= static_cast<uint64_t>(size_));
  return static_cast<int64_t>(value);
}

}  // namespace gputrain

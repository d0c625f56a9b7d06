#include "data/content_hash.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <vector>

#include "util/random.h"

namespace gputrain {
namespace {

constexpr int64_t kBlock = 64 << 10;
constexpr int64_t kBlocks = 64;

uint64_t add_bytes(uint64_t hash, std::span<const char> bytes) {
  for (size_t at = 0; at < bytes.size(); at += 8) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, std::min<size_t>(8, bytes.size() - at));
    hash = mix64(hash ^ word);
  }
  return hash;
}

}  // namespace

std::string sampled_hash(int64_t size, const std::function<void(int64_t offset, std::span<char> out)>& read) {
  uint64_t hash = mix64(static_cast<uint64_t>(size));
  const int64_t blocks = std::min(kBlocks, (size + kBlock - 1) / kBlock);
  std::vector<char> block(kBlock);
  for (int64_t i = 0; i < blocks; ++i) {
    const bool whole = size <= kBlock * kBlocks;
    const int64_t offset =
        whole ? i * kBlock : static_cast<int64_t>(static_cast<__int128>(size - kBlock) * i / (blocks - 1));
    const auto part = std::span(block).first(static_cast<size_t>(std::min(kBlock, size - offset)));
    read(offset, part);
    hash = add_bytes(hash, part);
  }
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash));
  return text;
}

}  // namespace gputrain

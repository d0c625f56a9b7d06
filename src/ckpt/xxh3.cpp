#include "ckpt/xxh3.h"

#include <algorithm>
#include <cstdio>
#include <new>
#include <vector>

#include <xxhash.h>

namespace gputrain {

void Xxh3::Free::operator()(void* state) const {
  XXH3_freeState(static_cast<XXH3_state_t*>(state));
}

Xxh3::Xxh3() : state_(XXH3_createState()) {
  if (!state_) throw std::bad_alloc();
  XXH3_64bits_reset(static_cast<XXH3_state_t*>(state_.get()));
}

void Xxh3::update(std::span<const char> bytes) {
  XXH3_64bits_update(static_cast<XXH3_state_t*>(state_.get()), bytes.data(), bytes.size());
}

std::string Xxh3::hex() const {
  char digits[17];
  const auto value = XXH3_64bits_digest(static_cast<const XXH3_state_t*>(state_.get()));
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(value));
  return digits;
}

std::string xxh3_hex(std::string_view bytes) {
  Xxh3 hash;
  hash.update(bytes);
  return hash.hex();
}

std::string xxh3_of_file(FileSystem& fs, const std::string& path) {
  constexpr int64_t kPiece = int64_t{4} << 20;
  const int64_t size = fs.size(path);
  std::vector<char> piece(static_cast<size_t>(std::min(kPiece, size)));
  Xxh3 hash;
  for (int64_t offset = 0; offset < size; offset += kPiece) {
    const std::span<char> part(piece.data(), static_cast<size_t>(std::min(kPiece, size - offset)));
    fs.read_at(path, offset, part);
    hash.update(part);
  }
  return hash.hex();
}

}  // namespace gputrain

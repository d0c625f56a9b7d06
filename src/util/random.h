#pragma once
// Counter-based randomness: every random decision is a pure function of its key, so workers, ranks and restarts never
// matter.
#include <cstdint>

namespace gputrain {

// SplitMix64's finaliser (Steele, Lea, Flood 2014): a bijection of 64-bit words with full avalanche.
constexpr uint64_t mix64(uint64_t x) {
  x += 0x9E3779B97F4A7C15ull;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

// What a stream is for: equal keys in different domains give unrelated streams.
enum class RandomDomain : uint64_t { kOrder = 1, kDropout = 2, kAugmentation = 3, kSynthetic = 4, kMixing = 5 };

// The seed of stream (domain, seed, a, b): e.g. dropout (seed, rank, step), augmentation (seed, epoch, sample id).
constexpr uint64_t derive_seed(RandomDomain domain, uint64_t seed, uint64_t a, uint64_t b) {
  return mix64(mix64(mix64(mix64(static_cast<uint64_t>(domain)) ^ seed) ^ a) ^ b);
}

// A tiny generator for augmentation: 2^64 period, no allocation.
class SplitMix {
 public:
  explicit constexpr SplitMix(uint64_t seed) : state_(seed) {}
  constexpr uint64_t next() { return mix64(state_ += 0x9E3779B97F4A7C15ull); }
  // Uniform in [0, 1): 53 bits.
  constexpr double uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }
  // Uniform in [0, bound), bound > 0 (multiply-shift; bias below 2^-32 for bounds below 2^32).
  constexpr uint64_t below(uint64_t bound) {
    return static_cast<uint64_t>((static_cast<unsigned __int128>(next()) * bound) >> 64);
  }

 private:
  uint64_t state_;
};

}  // namespace gputrain

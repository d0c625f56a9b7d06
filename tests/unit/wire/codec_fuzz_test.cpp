// Any bytes may arrive: a decoder throws Error or waits for more, and holds no more memory than its input asks for.
#include <cstdlib>
#include <new>

#include <gtest/gtest.h>
#include <malloc.h>

#include "sample_messages.h"
#include "util/random.h"
#include "wire/codec.h"

namespace {

// Bytes that are allocated now and at most since reset, in this test program (one thread).
struct Meter {
  size_t now = 0, peak = 0, largest = 0;
} meter;

}  // namespace

void* operator new(size_t size) {
  void* block = std::malloc(size);
  if (!block) throw std::bad_alloc();
  meter.now += malloc_usable_size(block);
  meter.peak = std::max(meter.peak, meter.now);
  meter.largest = std::max(meter.largest, size);
  return block;
}
void operator delete(void* block) noexcept {
  if (block) meter.now -= malloc_usable_size(block);
  std::free(block);
}
void operator delete(void* block, size_t) noexcept {
  operator delete(block);
}

namespace gputrain {
namespace {

// Feeds it in random pieces; true when something was refused.
bool digest(const std::string& bytes, SplitMix& random) {
  Decoder decoder;
  try {
    for (size_t at = 0; at < bytes.size();) {
      const size_t piece = 1 + random.below(bytes.size() - at);
      decoder.feed(std::string_view(bytes).substr(at, piece));
      at += piece;
      while (decoder.next()) {
      }
    }
  } catch (const Error&) {
    return true;
  }
  return false;
}

void mutate(std::string& bytes, SplitMix& random) {
  for (uint64_t count = 1 + random.below(4); count > 0 && !bytes.empty(); --count) {
    const size_t at = random.below(bytes.size());
    switch (random.below(6)) {
      case 0:
        bytes[at] = static_cast<char>(random.next());
        break;
      case 1:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << random.below(8)));
        break;
      case 2:
        bytes.erase(at, 1 + random.below(8));
        break;
      case 3:
        bytes.insert(at, bytes.substr(random.below(bytes.size()), random.below(16)));
        break;
      case 4:
        bytes.insert(at, 1, "{}[]\",:0-e\\"[random.below(11)]);
        break;
      default:
        bytes.resize(at);
    }
  }
}

TEST(CodecFuzzTest, MutatedFramesNeverCrashNorTakeMuchMemory) {
  const auto samples = testing::every_message();
  std::vector<std::string> frames;
  for (const Message& message : samples) frames.push_back(encode(message));
  SplitMix random(derive_seed(RandomDomain::kSynthetic, 1, 2, 3));
  int refused = 0;
  meter.largest = 0;
  const size_t before = meter.now;
  meter.peak = before;
  constexpr int kRounds = 100'000;
  for (int round = 0; round < kRounds; ++round) {
    std::string bytes = frames[random.below(frames.size())];
    if (random.below(4) == 0) bytes += frames[random.below(frames.size())];
    mutate(bytes, random);
    refused += digest(bytes, random);
  }
  EXPECT_LT(meter.peak - before, 256u << 10) << "inputs are of at most 2 KiB";
  EXPECT_LT(meter.largest, 64u << 10) << "a length in a header was believed";
  EXPECT_GT(refused, kRounds / 2) << "most mutations break something";
  EXPECT_LT(refused, kRounds) << "some are harmless or only cut the stream";
}

TEST(CodecFuzzTest, RandomBytesBehindAValidHeader) {
  SplitMix random(7);
  for (int round = 0; round < 20'000; ++round) {
    std::string bytes = encode(Heartbeat{1}).substr(0, 8);
    const auto length = static_cast<uint32_t>(random.below(64));
    for (int i = 0; i < 4; ++i) bytes.push_back(static_cast<char>(length >> (8 * i)));
    for (uint32_t i = 0; i < length; ++i) bytes.push_back(static_cast<char>(random.next()));
    digest(bytes, random);
  }
}

// The worst that a peer can announce truthfully: memory stays proportional to what it has sent.
TEST(CodecFuzzTest, LongStreamsDoNotPileUp) {
  Decoder decoder;
  const std::string frame = encode(Record{std::string(1000, 'x')});
  meter.peak = meter.now;
  const size_t before = meter.now;
  for (int i = 0; i < 20'000; ++i) {
    decoder.feed(frame);
    ASSERT_TRUE(decoder.next());
  }
  EXPECT_LT(meter.peak - before, 64u << 10);
}

}  // namespace
}  // namespace gputrain

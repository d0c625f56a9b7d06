#include <cmath>
#include <map>
#include <set>

#include "unit/data/data_files.h"

namespace gputrain {
namespace {

std::vector<int64_t> ids(int64_t size, uint64_t seed, int64_t epoch, bool shuffle = true) {
  const SampleOrder order(size, seed, epoch, shuffle);
  std::vector<int64_t> all;
  for (int64_t i = 0; i < size; ++i) all.push_back(order[i]);
  return all;
}

// A contract: a checkpoint of one version continues the same order under the next.
TEST(SampleOrder, IsFrozen) {
  const SampleOrder order(60000, 1, 0);
  std::vector<int64_t> first;
  for (int64_t i = 0; i < 8; ++i) first.push_back(order[i]);
  EXPECT_EQ(first, (std::vector<int64_t>{21221, 58199, 15334, 59641, 26204, 59451, 14974, 36835}));
  EXPECT_EQ(ids(5, 7, 3), (std::vector<int64_t>{0, 3, 1, 2, 4}));
}

TEST(SampleOrder, IsAPermutationOfEverySize) {
  for (int64_t size : {1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 63, 64, 65, 255, 256, 257, 1003, 1024, 4096, 4097, 60000}) {
    for (int64_t epoch : {0, 1, 2}) {
      const auto order = ids(size, 42, epoch);
      const std::set<int64_t> distinct(order.begin(), order.end());
      ASSERT_EQ(distinct.size(), static_cast<size_t>(size)) << size;
      ASSERT_EQ(*distinct.begin(), 0) << size;
      ASSERT_EQ(*distinct.rbegin(), size - 1) << size;
    }
  }
}

TEST(SampleOrder, WorksForHugeSizes) {
  const int64_t size = (int64_t{1} << 40) + 12345;
  const SampleOrder order(size, 1, 0);
  std::set<int64_t> seen;
  for (int64_t i = 0; i < 1000; ++i) {
    const int64_t id = order[size - 1 - i];
    ASSERT_GE(id, 0);
    ASSERT_LT(id, size);
    seen.insert(id);
  }
  EXPECT_EQ(seen.size(), 1000u);
}

TEST(SampleOrder, DependsOnSeedAndEpoch) {
  const auto base = ids(1000, 1, 0);
  for (const auto& other : {ids(1000, 2, 0), ids(1000, 1, 1), ids(1000, 2, 1), ids(1000, 0, 1)}) {
    int same = 0;
    for (size_t i = 0; i < 1000; ++i) same += base[i] == other[i];
    EXPECT_LT(same, 10);  // 1 expected; 10 or more has a chance of 1e-7
  }
  EXPECT_EQ(base, ids(1000, 1, 0));
}

TEST(SampleOrder, WithoutShuffleIsTheIdentity) {
  EXPECT_EQ(ids(5, 1, 3, false), (std::vector<int64_t>{0, 1, 2, 3, 4}));
}

// |id - position| of a random permutation has mean n/3 and, over its n entries, a standard error of about n * 0.236 /
// sqrt(n).
TEST(SampleOrder, MovesSamplesAsFarAsChanceDoes) {
  for (int64_t n : {100, 1003, 60000}) {
    double sum = 0;
    const auto order = ids(n, 9, 4);
    for (int64_t i = 0; i < n; ++i) sum += std::abs(static_cast<double>(order[i] - i));
    const auto size = static_cast<double>(n);
    EXPECT_NEAR(sum / size, size / 3, 5 * 0.236 * std::sqrt(size)) << n;
  }
}

// Neighbours in the order are not neighbours in the file: the differences take nearly as many values as chance gives.
TEST(SampleOrder, HasNoStride) {
  const auto order = ids(4096, 3, 0);  // a power of two: no cycle walking hides a weak network
  std::map<int64_t, int> strides;
  for (size_t i = 1; i < order.size(); ++i) ++strides[order[i] - order[i - 1]];
  for (const auto& [stride, count] : strides) EXPECT_LE(count, 12) << stride;  // mean 1 at most
  EXPECT_GT(strides.size(), 2000u);
}

// Every sample comes at every position equally often over the epochs, also where the Feistel halves have one or two
// bits.
TEST(SampleOrder, SmallOrdersAreUniform) {
  constexpr int kEpochs = 20000;
  for (int64_t size : {2, 3, 4, 5, 8}) {
    std::vector<double> counts(static_cast<size_t>(size * size));
    for (int64_t epoch = 0; epoch < kEpochs; ++epoch) {
      const SampleOrder order(size, 11, epoch);
      for (int64_t i = 0; i < size; ++i) ++counts[static_cast<size_t>(i * size + order[i])];
    }
    const double expected = static_cast<double>(kEpochs) / static_cast<double>(size);
    for (double count : counts) EXPECT_NEAR(count, expected, 5 * std::sqrt(expected)) << size;
  }
}

// All 6 and 24 orders of 3 and 4 samples occur.
TEST(SampleOrder, SmallOrdersAllOccur) {
  for (const auto& [size, factorial] : std::vector<std::pair<int64_t, size_t>>{{2, 2}, {3, 6}, {4, 24}, {5, 120}}) {
    std::set<std::vector<int64_t>> seen;
    for (int64_t epoch = 0; epoch < 5000; ++epoch) seen.insert(ids(size, 5, epoch));
    EXPECT_EQ(seen.size(), factorial) << size;
  }
}

}  // namespace
}  // namespace gputrain

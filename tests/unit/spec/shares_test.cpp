#include "spec/shares.h"

#include <algorithm>
#include <numeric>

#include <gtest/gtest.h>

namespace gputrain {
namespace {

TEST(Shares, CoverABatchInOrderForAllSmallSizes) {
  for (int world = 1; world <= 7; ++world) {
    for (int64_t count = 0; count <= 60; ++count) {
      int64_t next = 0, largest = 0;
      for (int rank = 0; rank < world; ++rank) {
        const Range share = share_of(count, rank, world);
        ASSERT_EQ(share.begin, next) << count << " on " << world;
        ASSERT_GE(share.size(), count / world);
        ASSERT_LE(share.size(), count / world + 1);
        next = share.end;
        largest = std::max(largest, share.size());
      }
      ASSERT_EQ(next, count);
      ASSERT_EQ(largest, largest_share(count, world));
    }
  }
}

TEST(Shares, AreTheFloorsOfTheDesign) {
  EXPECT_EQ(share_of(256, 0, 3), (Range{0, 85}));
  EXPECT_EQ(share_of(256, 1, 3), (Range{85, 170}));
  EXPECT_EQ(share_of(256, 2, 3), (Range{170, 256}));
  EXPECT_EQ(share_of(2, 0, 3), (Range{0, 0}));
  EXPECT_EQ(share_of(2, 1, 3), (Range{0, 1}));
  EXPECT_EQ(share_of(2, 2, 3), (Range{1, 2}));
}

TEST(Shares, DoNotOverflow) {
  const int64_t huge = int64_t{1} << 60;
  EXPECT_EQ(share_of(huge, 4095, 4096), (Range{huge / 4096 * 4095, huge}));
  EXPECT_EQ(largest_share(INT64_MAX, 2), INT64_MAX / 2 + 1);
}

TEST(MicroBatches, CoverAShare) {
  for (int64_t share = 0; share <= 40; ++share) {
    for (int64_t micro = 1; micro <= 12; ++micro) {
      int64_t next = 0;
      for (int64_t i = 0; i < micro_batch_count(share, micro); ++i) {
        const Range range = micro_batch_range(share, micro, i);
        ASSERT_EQ(range.begin, next);
        ASSERT_GE(range.size(), 1);
        ASSERT_LE(range.size(), micro);
        next = range.end;
      }
      ASSERT_EQ(next, share);
    }
  }
  EXPECT_EQ(micro_batch_count(0, 4), 0);
}

TEST(Windows, OfTheIssuesDataSets) {
  EXPECT_EQ(steps_per_epoch(1003, 256, false), 4);
  EXPECT_EQ(steps_per_epoch(1003, 256, true), 3);
  EXPECT_EQ(window_of(1003, 256, 3), (Range{768, 1003}));
  EXPECT_EQ(window_of(1003, 256, 3).size(), 235);
  EXPECT_EQ(steps_per_epoch(514, 256, false), 3);
  EXPECT_EQ(window_of(514, 256, 2).size(), 2);
  EXPECT_EQ(steps_per_epoch(512, 256, false), 2);
  EXPECT_EQ(steps_per_epoch(100, 256, false), 1);
  EXPECT_EQ(steps_per_epoch(100, 256, true), 0);
  EXPECT_EQ(window_of(100, 256, 0), (Range{0, 100}));
  EXPECT_EQ(steps_per_epoch(0, 256, false), 0);
}

TEST(Windows, TheSharesOfATailAreThoseOfItsOwnCount) {
  EXPECT_EQ(share_of(235, 1, 2), (Range{117, 235}));
  EXPECT_EQ(micro_batch_count(share_of(235, 0, 2).size(), 64), 2);
  EXPECT_EQ(micro_batch_range(117, 64, 1), (Range{64, 117}));
}

TEST(SharesDeathTest, RefuseWhatDoesNotExist) {
  EXPECT_DEATH(share_of(10, 3, 3), "no such share");
  EXPECT_DEATH(micro_batch_range(10, 4, 3), "no such micro-batch");
  EXPECT_DEATH(window_of(100, 10, 10), "no such step");
}

// By the definition: every window, rank and micro-batch.
std::optional<LoneSample> lone_by_search(const EpochCut& cut) {
  for (int64_t step = 0; step < cut.steps; ++step) {
    const int64_t window = window_of(cut.samples, cut.global_batch, step).size();
    for (int rank = 0; rank < cut.world_size; ++rank) {
      const int64_t share = share_of(window, rank, cut.world_size).size();
      const int64_t size = cut.micro_batch == 0 ? std::max<int64_t>(share, 1) : cut.micro_batch;
      for (int64_t i = 0; i < micro_batch_count(share, size); ++i) {
        if (micro_batch_range(share, size, i).size() == 1) return {{step, rank}};
      }
    }
  }
  return std::nullopt;
}

TEST(LoneSample, IsFoundWhereAMicroBatchHasOneSample) {
  int found = 0, none = 0;
  for (const int world : {1, 2, 3}) {
    for (const int64_t batch : {3, 4, 6, 7}) {
      for (int64_t micro = 0; micro <= batch / world; ++micro) {
        for (int64_t samples = 1; samples <= 22; ++samples) {
          for (int64_t steps = 1; steps <= steps_per_epoch(samples, batch, false); ++steps) {
            const EpochCut cut{samples, batch, micro, world, steps};
            const auto expected = lone_by_search(cut), lone = find_lone_sample(cut);
            ASSERT_EQ(lone.has_value(), expected.has_value())
                << world << " ranks, batch " << batch << ", micro " << micro << ", " << samples << " samples";
            ++(lone ? found : none);
            if (!lone) continue;
            EXPECT_EQ(lone->step, expected->step);
            EXPECT_EQ(lone->rank, expected->rank);
          }
        }
      }
    }
  }
  EXPECT_GT(found, 100);
  EXPECT_GT(none, 100);
}

}  // namespace
}  // namespace gputrain

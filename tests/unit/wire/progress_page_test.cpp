#include "wire/progress_page.h"

#include <gtest/gtest.h>

namespace gputrain {
namespace {

TEST(ProgressPageTest, PhasesHaveWordsBothWays) {
  for (uint32_t i = 0; i <= static_cast<uint32_t>(Phase::kIdle); ++i) {
    const auto phase = static_cast<Phase>(i);
    Phase back = Phase::kSetUp;
    ASSERT_TRUE(phase_from(to_string(phase), &back)) << i;
    EXPECT_EQ(back, phase);
  }
  EXPECT_EQ(to_string(Phase::kSetUp), "set-up");
  EXPECT_EQ(to_string(Phase::kAllReduce), "all-reduce");
  EXPECT_EQ(to_string(Phase::kCommit), "commit");
  EXPECT_EQ(to_string(Phase::kIdle), "idle");
  Phase untouched = Phase::kForward;
  EXPECT_FALSE(phase_from("dreaming", &untouched));
  EXPECT_EQ(untouched, Phase::kForward);
}

TEST(ProgressPageTest, SnapshotReadsAllFields) {
  ProgressPage page;
  page.step = 7;
  page.phase = static_cast<uint32_t>(Phase::kBackward);
  page.collectives = 9;
  const auto read = snapshot(page);
  EXPECT_EQ(read.step, 7u);
  EXPECT_EQ(read.phase, "backward");
  EXPECT_EQ(read.collectives, 9u);
  page.phase = 12345;  // a page may hold anything
  EXPECT_EQ(snapshot(page).phase, "unknown");
}

TEST(ProgressPageTest, ZeroFilledPageIsSetUpBeforeTheFirstStep) {
  const ProgressPage page;
  EXPECT_EQ(snapshot(page).phase, "set-up");
  EXPECT_EQ(snapshot(page).step, 0u);
}

}  // namespace
}  // namespace gputrain

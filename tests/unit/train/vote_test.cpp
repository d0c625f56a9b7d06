#include "train/vote.h"

#include <gtest/gtest.h>

#include "dist/comm_single.h"
#include "support/run_ranks.h"

namespace gputrain {
namespace {

TEST(Vote, InAWorldOfOneIsTheBallot) {
  Vote vote(make_single_comm());
  const Agreement agreement = vote.take({.stop = StopReason::kUserStop,
                                         .ready = false,
                                         .evaluate_due = true,
                                         .samples = 7,
                                         .loss_sum = 2.5,
                                         .non_finite = true});
  EXPECT_EQ(agreement.stop, StopReason::kUserStop);
  EXPECT_FALSE(agreement.ready);
  EXPECT_TRUE(agreement.evaluate_due);
  EXPECT_FALSE(agreement.save_due);
  EXPECT_EQ(agreement.samples, 7);
  EXPECT_EQ(agreement.loss_sum, 2.5);
  EXPECT_EQ(agreement.non_finite_ranks, 1);
  EXPECT_EQ(vote.first_text("mine").text, "mine");
  EXPECT_EQ(vote.first_text("").rank, -1);
}

// Each rank votes differently; all must come to the same result.
void vote_of_three(int rank, const CommOptions& options) {
  Vote vote(make_comms(options).control);
  const Agreement quiet = vote.take({.samples = 5 + rank, .count = 10 * (5 + rank)});
  EXPECT_EQ(quiet.stop, StopReason::kNone);
  EXPECT_TRUE(quiet.ready);
  EXPECT_FALSE(quiet.save_due || quiet.evaluate_due);
  EXPECT_EQ(quiet.samples, 5 + 6 + 7);
  EXPECT_EQ(quiet.count, 50 + 60 + 70);

  Ballot ballot;
  ballot.stop = rank == 0 ? StopReason::kNone : rank == 1 ? StopReason::kInterrupted : StopReason::kPreempted;
  ballot.ready = rank != 2;
  ballot.save_due = rank == 0;
  const Agreement stopping = vote.take(ballot);
  EXPECT_EQ(stopping.stop, StopReason::kInterrupted) << "the strongest reason wins";
  EXPECT_FALSE(stopping.ready);
  EXPECT_TRUE(stopping.save_due);
  EXPECT_FALSE(stopping.evaluate_due);

  const auto pending = vote.start({.loss_sum = rank + 0.25, .non_finite = rank == 1});
  const Agreement losses = pending();
  EXPECT_EQ(losses.loss_sum, 3.75);
  EXPECT_EQ(losses.non_finite_ranks, 1);
  const auto first = vote.first_text(rank == 0 ? "" : "rank " + std::to_string(rank));
  EXPECT_EQ(first.rank, 1);
  EXPECT_EQ(first.text, "rank 1");
  EXPECT_EQ(vote.first_text("").rank, -1);
}

TEST(Vote, ThreeRanksAgree) {
  EXPECT_EQ(test::run_ranks(3, vote_of_three, std::chrono::seconds(20)), test::all_succeed(3));
}

}  // namespace
}  // namespace gputrain

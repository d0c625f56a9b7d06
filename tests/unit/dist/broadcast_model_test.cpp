#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dist/reducer.h"
#include "support/run_ranks.h"
#include "toy_model.h"
#include "util/error.h"

namespace gputrain::test {
namespace {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

class BroadcastModelTest : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Worlds, BroadcastModelTest, ::testing::Values(1, 2, 3));

NamedTensors model_of(int seed) {
  return {{"conv1.weight",
           wave({4, 3, 2, 2}, seed, at::kFloat).contiguous(at::MemoryFormat::ChannelsLast).requires_grad_(true)},
          {"fc1.weight", wave({5, 7}, seed, at::kFloat).requires_grad_(true)},
          {"bn.running_mean", wave({5}, seed, at::kDouble)},
          {"bn.num_batches_tracked", at::full({}, seed, at::kLong)}};
}

TEST_P(BroadcastModelTest, EveryRankGetsThatOfRankZero) {
  const auto exits = run_ranks(GetParam(), [](int rank, const CommOptions& options) {
    const Comms comms = make_comms(options);
    const NamedTensors mine = model_of(rank + 1), expected = model_of(1);
    broadcast_model(*comms.gradients, mine);
    for (size_t i = 0; i < mine.size(); ++i) {
      EXPECT_TRUE(at::equal(mine[i].second.detach(), expected[i].second.detach())) << mine[i].first;
      EXPECT_EQ(mine[i].second.requires_grad(), expected[i].second.requires_grad());
    }
  });
  EXPECT_EQ(exits, all_succeed(GetParam()));
}

// Every rank must throw, and say the same: none may be left waiting in the broadcast.
void expect_mismatch(const std::function<void(NamedTensors&)>& change, const std::string& message) {
  const auto exits = run_ranks(3, [&](int rank, const CommOptions& options) {
    const Comms comms = make_comms(options);
    NamedTensors tensors = model_of(1);
    if (rank == 1) change(tensors);
    try {
      broadcast_model(*comms.gradients, tensors);
      ADD_FAILURE() << "expected: " << message;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind, ErrorKind::kInternal);
      EXPECT_EQ(error.message, "the model differs between the ranks: rank 1 has " + message);
    }
  });
  EXPECT_EQ(exits, all_succeed(3));
}

TEST(BroadcastModel, AMismatchNamesTheParameter) {
  expect_mismatch(
      [](NamedTensors& model) {
        model[1].second = at::ones({5, 8});
      },
      "`fc1.weight Float [5, 8]`, rank 0 has `fc1.weight Float [5, 7]`");
  expect_mismatch([](NamedTensors& model) { model[2].second = model[2].second.to(at::kFloat); },
                  "`bn.running_mean Float [5]`, rank 0 has `bn.running_mean Double [5]`");
  expect_mismatch([](NamedTensors& model) { model[0].first = "conv_1.weight"; },
                  "`conv_1.weight Float [4, 3, 2, 2]`, rank 0 has `conv1.weight Float [4, 3, 2, 2]`");
  expect_mismatch([](NamedTensors& model) { model.pop_back(); },
                  "nothing, rank 0 has `bn.num_batches_tracked Long []`");
  expect_mismatch([](NamedTensors& model) { model.emplace_back("extra", at::ones({1})); },
                  "`extra Float [1]`, rank 0 has nothing");
}

}  // namespace
}  // namespace gputrain::test

#include "dist/comm.h"

#include <csignal>
#include <cstring>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "dist/rendezvous.h"
#include "support/run_ranks.h"
#include "util/error.h"

namespace gputrain::test {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

class CommTest : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Worlds, CommTest, ::testing::Values(1, 2, 3));

template <typename Body>
void expect_on_all(int world, Body body) {
  EXPECT_EQ(run_ranks(world,
                      [&](int rank, const CommOptions& options) {
                        const Comms comms = make_comms(options);
                        for (const auto& comm : {comms.control, comms.gradients}) {
                          ASSERT_EQ(comm->rank(), rank);
                          ASSERT_EQ(comm->world_size(), options.world_size);
                          body(*comm);
                        }
                      }),
            all_succeed(world));
}

TEST_P(CommTest, SumsInPlace) {
  expect_on_all(GetParam(), [](Comm& comm) {
    const int world = comm.world_size();
    for (const auto dtype : {at::kDouble, at::kFloat, at::kLong}) {
      at::Tensor tensor = at::arange(5, dtype) + comm.rank() * 10;
      comm.all_reduce_sum(tensor);
      EXPECT_TRUE(at::equal(tensor, at::arange(5, dtype) * world + 10 * world * (world - 1) / 2)) << tensor;
    }
  });
}

TEST_P(CommTest, SumsWhileTheCallerWorks) {
  expect_on_all(GetParam(), [](Comm& comm) {
    at::Tensor vote = at::full({8}, comm.rank() + 1.0, at::kDouble);
    const auto wait = comm.start_all_reduce_sum(vote);
    const double work = at::ones({100}).sum().item<double>();
    wait();
    EXPECT_EQ(work, 100);
    EXPECT_TRUE(at::equal(vote, at::full({8}, comm.world_size() * (comm.world_size() + 1) / 2.0, at::kDouble)));
  });
}

TEST_P(CommTest, SumsIntoATensorThatIsNotContiguousOrNeedsAGradient) {
  expect_on_all(GetParam(), [](Comm& comm) {
    at::Tensor grid = at::zeros({2, 3});
    at::Tensor column = grid.select(1, 1);
    column.fill_(comm.rank() + 1);
    comm.all_reduce_sum(column);
    const double sum = comm.world_size() * (comm.world_size() + 1) / 2.0;
    EXPECT_TRUE(at::equal(grid, at::tensor({0.0, sum, 0.0, 0.0, sum, 0.0}, at::kFloat).view({2, 3}))) << grid;
    at::Tensor parameter = at::ones({3}).requires_grad_(true);
    comm.all_reduce_sum(parameter);
    EXPECT_TRUE(at::equal(parameter.detach(), at::full({3}, double(comm.world_size()))));
    EXPECT_TRUE(parameter.requires_grad());
  });
}

TEST_P(CommTest, BroadcastsFromEveryRoot) {
  expect_on_all(GetParam(), [](Comm& comm) {
    for (int root = 0; root < comm.world_size(); ++root) {
      at::Tensor tensor = at::full({2, 2}, comm.rank() + 7, at::kInt);
      comm.broadcast(tensor, root);
      EXPECT_TRUE(at::equal(tensor, at::full({2, 2}, root + 7, at::kInt)));
    }
  });
}

TEST_P(CommTest, BroadcastsManyTensorsOfSeveralDtypesAndLayouts) {
  expect_on_all(GetParam(), [](Comm& comm) {
    const int root = comm.world_size() - 1;
    const auto make = [](int rank) {
      return std::vector<at::Tensor>{
          (at::arange(6, at::kFloat) + rank).view({2, 3}).requires_grad_(true), at::full({}, rank, at::kLong),
          at::full({1, 4, 2, 2}, rank, at::kDouble),
          (at::arange(24, at::kFloat) + rank).view({1, 2, 3, 4}).contiguous(at::MemoryFormat::ChannelsLast)};
    };
    const std::vector<at::Tensor> tensors = make(comm.rank()), expected = make(root);
    comm.broadcast_all(tensors, root);
    for (size_t i = 0; i < tensors.size(); ++i) EXPECT_TRUE(at::equal(tensors[i].detach(), expected[i].detach())) << i;
    EXPECT_TRUE(tensors[3].is_contiguous(at::MemoryFormat::ChannelsLast));
  });
}

TEST_P(CommTest, BroadcastsBytesOfAnyLength) {
  expect_on_all(GetParam(), [](Comm& comm) {
    for (const std::string& text : {std::string(), std::string("a\0b", 3), std::string(3'000'000, 'x')}) {
      const bool root = comm.rank() == comm.world_size() - 1;
      EXPECT_EQ(comm.broadcast_bytes(root ? text : "another rank's", comm.world_size() - 1), text);
    }
  });
}

TEST_P(CommTest, BarrierWaitsForTheSlowest) {
  expect_on_all(GetParam(), [](Comm& comm) {
    comm.barrier();
    const auto begin = std::chrono::steady_clock::now();
    if (comm.rank() == comm.world_size() - 1) std::this_thread::sleep_for(std::chrono::milliseconds(150));
    comm.barrier();
    EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(comm.world_size() > 1 ? 140 : 0));
  });
}

TEST(Comm, OnlyAWorldOfOneHasNoProcessGroup) {
  EXPECT_EQ(run_ranks(1,
                      [](int, CommOptions options) {
                        EXPECT_FALSE(make_comms(options).gradients->process_group());
                        options.group_of_one = true;
                        EXPECT_TRUE(make_comms(options).gradients->process_group());
                      }),
            all_succeed(1));
}

// Rank 1 joins a second attempt on the same store: what rank 0 left there under the first one must not count.
TEST(Comm, AttemptsOnOneStoreDoNotMeet) {
  EXPECT_EQ(run_ranks(2,
                      [](int rank, CommOptions options) {
                        const Comms first = make_comms(options);
                        if (rank == 1) {
                          options.key_prefix = "test/2";
                          options.connect_timeout = std::chrono::milliseconds(300);
                          try {
                            join_store(options);
                            ADD_FAILURE() << "met keys of another attempt";
                          } catch (const Error& error) {
                            EXPECT_EQ(error.kind, ErrorKind::kPeerLost);
                            EXPECT_THAT(error.message, HasSubstr("rank 0 did not come within 0.3 s"));
                          }
                        }
                        first.control->barrier();
                      }),
            all_succeed(2));
}

TEST(Comm, MissingRanksAreNamed) {
  const auto exits = run_ranks(4, [](int rank, CommOptions options) {
    if (rank == 1 || rank == 3) return;
    options.connect_timeout = std::chrono::milliseconds(500);
    try {
      make_comms(options);
      ADD_FAILURE() << "a group without two of its ranks";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind, ErrorKind::kPeerLost);
      if (rank == 0) {
        EXPECT_THAT(error.message, HasSubstr("ranks 1 and 3 did not come within 0.5 s"));
      }
      EXPECT_THAT(error.render(), HasSubstr("store 127.0.0.1:"));
    }
  });
  EXPECT_EQ(exits, all_succeed(4));
}

TEST(Comm, NcclWithoutItsLibraryIsAnEnvironmentError) {
  CommOptions options;
  options.world_size = 2;
  options.nccl = true;
  try {
    make_comms(options);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind, ErrorKind::kEnvironment);
    EXPECT_THAT(error.hint, HasSubstr("gloo"));
  }
}

TEST(Comm, FindsTheInterfaceThatLeadsToTheStore) {
  EXPECT_EQ(local_address_towards("127.0.0.1", 1), "127.0.0.1");
  EXPECT_EQ(local_address_towards("localhost", 1).substr(0, 4), "127.");
  try {
    local_address_towards("no-such-host.invalid", 1);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind, ErrorKind::kEnvironment);
    EXPECT_EQ(error.where, "no-such-host.invalid");
  }
}

}  // namespace
}  // namespace gputrain::test

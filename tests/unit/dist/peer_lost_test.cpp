// What survivors see when a rank dies or falls silent.
#include <csignal>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dist/collective_error.h"
#include "dist/comm.h"
#include "support/run_ranks.h"
#include "toy_model.h"
#include "util/error.h"

namespace gputrain::test {
namespace {

using ::testing::HasSubstr;

constexpr int kVictim = 1;

// The victim kills itself in the middle of `operation`; the others must get Error(kPeerLost), at the latest after 5 s.
template <typename Operation>
void expect_peer_lost(int world, const std::string& name, Operation operation) {
  auto expected = all_succeed(world);
  expected[kVictim] = {-1, SIGKILL, false};
  const auto exits = run_ranks(world, [&](int rank, CommOptions options) {
    options.timeout = std::chrono::seconds(5);
    const Comms comms = make_comms(options);
    try {
      for (int step = 0; step < 3; ++step) operation(*comms.gradients, rank == kVictim && step == 1);
      ADD_FAILURE() << "nobody noticed";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind, ErrorKind::kPeerLost);
      EXPECT_THAT(error.message, HasSubstr(name + " failed: "));
      EXPECT_EQ(error.message.find('\n'), std::string::npos);
      EXPECT_THAT(error.hint, HasSubstr("victim"));
    }
    std::fflush(nullptr);
    ::_exit(::testing::Test::HasFailure() ? 1 : 0);  // destroying the group may wait for its timeout
  });
  EXPECT_EQ(exits, expected);
}

class PeerLostTest : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Worlds, PeerLostTest, ::testing::Values(2, 3, 4));

TEST_P(PeerLostTest, InAllReduce) {
  for (const int64_t elements : {8, 4'000'000}) {
    expect_peer_lost(GetParam(), "all-reduce", [elements](Comm& comm, bool die) {
      at::Tensor tensor = at::ones({elements});
      const auto wait = comm.start_all_reduce_sum(tensor);
      if (die) ::raise(SIGKILL);
      wait();
    });
  }
}

TEST_P(PeerLostTest, InBroadcast) {
  expect_peer_lost(GetParam(), "broadcast", [](Comm& comm, bool die) {
    if (die) ::raise(SIGKILL);
    at::Tensor tensor = at::ones({1'000'000});
    comm.broadcast(tensor, kVictim);
    comm.broadcast(tensor, 0);
  });
}

TEST_P(PeerLostTest, InBarrier) {
  expect_peer_lost(GetParam(), "barrier", [](Comm& comm, bool die) {
    if (die) ::raise(SIGKILL);
    comm.barrier();
  });
}

TEST_P(PeerLostTest, InBackward) {
  const auto exits = run_ranks(GetParam(), [&](int rank, CommOptions options) {
    options.timeout = std::chrono::seconds(5);
    const Comms comms = make_comms(options);
    ToyModel model(64, {500, 500, 500});
    ReducerOptions reducer_options;
    reducer_options.on_all_reduce = [rank, calls = 0]() mutable {
      if (rank == kVictim && ++calls == 2) ::raise(SIGKILL);
    };
    reducer_options.deterministic = true;
    reducer_options.first_bucket_bytes = reducer_options.bucket_bytes = 1000;
    const auto reducer = make_reducer(comms.gradients, model.parameters, model.names, reducer_options);
    try {
      run_step(*reducer, *comms.gradients, model, {model.samples(8), 2});
      ADD_FAILURE() << "nobody noticed";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind, ErrorKind::kPeerLost);
      EXPECT_THAT(error.message, HasSubstr("gradient all-reduce failed: "));
    }
    std::fflush(nullptr);
    ::_exit(::testing::Test::HasFailure() ? 1 : 0);
  });
  auto expected = all_succeed(GetParam());
  expected[kVictim] = {-1, SIGKILL, false};
  EXPECT_EQ(exits, expected);
}

// Every operation must have options.timeout, not the one that the connections were made with.
TEST(PeerLost, ASilentPeerEndsInATimeout) {
  const std::vector<std::function<void(Comm&)>> operations = {
      [](Comm& comm) {
        at::Tensor tensor = at::ones({4});
        comm.all_reduce_sum(tensor);
      },
      [](Comm& comm) {
        at::Tensor tensor = at::ones({4'000'000});
        comm.all_reduce_sum(tensor);
      },
      [](Comm& comm) { comm.barrier(); },
      [](Comm& comm) {
        at::Tensor tensor = at::ones({4});
        comm.broadcast(tensor, 1);
      },
  };
  for (const auto& operation : operations) {
    const auto exits = run_ranks(2, [&](int rank, CommOptions options) {
      options.timeout = std::chrono::milliseconds(300);
      const Comms comms = make_comms(options);
      if (rank == 1) {
        std::this_thread::sleep_for(std::chrono::seconds(1));
        ::_exit(0);
      }
      try {
        operation(*comms.control);
        ADD_FAILURE();
      } catch (const Error& error) {
        EXPECT_EQ(error.kind, ErrorKind::kPeerLost);
        EXPECT_THAT(error.message, HasSubstr("Timed out"));
      }
      std::fflush(nullptr);
      ::_exit(::testing::Test::HasFailure() ? 1 : 0);
    });
    EXPECT_EQ(exits, all_succeed(2));
  }
}

TEST(PeerLost, SigpipeIsIgnoredUnlessHandled) {
  const auto exits = run_ranks(2, [](int rank, const CommOptions& options) {
    if (rank == 1) ::signal(SIGPIPE, [](int) {});
    const Comms comms = make_comms(options);
    struct sigaction current {};
    ::sigaction(SIGPIPE, nullptr, &current);
    EXPECT_EQ(current.sa_handler == SIG_IGN, rank == 0);
    comms.control->barrier();
  });
  EXPECT_EQ(exits, all_succeed(2));
}

TEST(CollectiveError, OtherExceptionsPassUnchanged) {
  EXPECT_THROW(run_collective("x", [] { throw std::out_of_range("mine"); }), std::out_of_range);
  EXPECT_THROW(run_collective("x", [] { at::ones({2}) + at::ones({3}); }), c10::Error);
  try {
    run_collective("x", [] { throw Error(ErrorKind::kOutOfMemory, "full"); });
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind, ErrorKind::kOutOfMemory);
  }
}

TEST(CollectiveError, ReasonsAreOneLineWithoutSourcePaths) {
  EXPECT_EQ(short_reason("[/a/b/pair.cc:547] Connection closed by peer [127.0.0.1]:80. This\nat frame 1"),
            "Connection closed by peer [127.0.0.1]:80. This");
  EXPECT_EQ(short_reason("plain"), "plain");
  EXPECT_EQ(short_reason("[unclosed"), "[unclosed");
}

}  // namespace
}  // namespace gputrain::test

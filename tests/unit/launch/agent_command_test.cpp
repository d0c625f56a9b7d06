#include "launch/agent_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gputrain {
namespace {

using testing::Contains;
using testing::Key;
using testing::Not;
using testing::Pair;

class AgentCommandTest : public testing::Test {
 protected:
  AgentCommandTest() {
    start.attempt = 12;
    start.plan = {{"output", "/out"}};
    start.slots = {{0, 0, -1, 1}, {1, 1, 1, 1}};
    options.worker = "/default/worker";
  }
  Start start;
  AgentOptions options;
};

TEST_F(AgentCommandTest, StartMayNameAnotherWorker) {
  EXPECT_EQ(rank_command(options, start, start.slots[0], false).worker, "/default/worker");
  start.worker = "/other/worker";
  EXPECT_EQ(rank_command(options, start, start.slots[0], false).worker, "/other/worker");
}

TEST_F(AgentCommandTest, LogIsNamedAfterAttemptAndRank) {
  EXPECT_EQ(rank_command(options, start, start.slots[1], false).log_path, "/out/logs/attempt-0012/rank-00001.log");
  start.plan = Json::object();
  EXPECT_EQ(rank_command(options, start, start.slots[1], false).log_path, "");
}

TEST_F(AgentCommandTest, OnlyRankZeroGetsTheStoresListener) {
  EXPECT_EQ(rank_command(options, start, start.slots[0], true).assign.store_fd, 5);
  EXPECT_EQ(rank_command(options, start, start.slots[1], true).assign.store_fd, -1);
  EXPECT_EQ(rank_command(options, start, start.slots[0], false).assign.store_fd, -1);
}

TEST_F(AgentCommandTest, GpuRankSeesItsDeviceAlone) {
  const auto gpu = rank_command(options, start, start.slots[1], false);
  EXPECT_THAT(gpu.environment, Contains(Pair("CUDA_VISIBLE_DEVICES", "1")));
  EXPECT_EQ(gpu.assign.device, 0);
  const auto cpu = rank_command(options, start, start.slots[0], false);
  EXPECT_THAT(cpu.environment, Not(Contains(Key("CUDA_VISIBLE_DEVICES"))));
  EXPECT_EQ(cpu.assign.device, -1);
}

TEST_F(AgentCommandTest, DeterministicGpuRanksGetCublasItsWorkspace) {
  const auto given = [&](const SlotAssignment& slot) { return rank_command(options, start, slot, false); };
  const auto cublas = Contains(Key("CUBLAS_WORKSPACE_CONFIG"));
  EXPECT_THAT(given(start.slots[1]).default_environment, Not(cublas));
  start.plan["train"] = {{"deterministic", true}};
  EXPECT_THAT(given(start.slots[1]).default_environment, Contains(Pair("CUBLAS_WORKSPACE_CONFIG", ":4096:8")));
  EXPECT_THAT(given(start.slots[1]).environment, Not(Contains(Key("CUBLAS_WORKSPACE_CONFIG"))));  // the user's wins
  EXPECT_THAT(given(start.slots[0]).default_environment, Not(cublas));
  start.plan["train"]["deterministic"] = false;
  EXPECT_THAT(given(start.slots[1]).default_environment, Not(cublas));
}

TEST_F(AgentCommandTest, RanksKeepFreedMemoryUnlessTheUserSaysOtherwise) {
  const auto command = rank_command(options, start, start.slots[0], false);
  EXPECT_THAT(command.default_environment, Contains(Pair("MALLOC_TRIM_THRESHOLD_", "9223372036854775807")));
  EXPECT_THAT(command.default_environment, Contains(Pair("MALLOC_MMAP_THRESHOLD_", "33554432")));
  EXPECT_THAT(command.default_environment, Contains(Pair("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1")));
  EXPECT_THAT(command.environment, Not(Contains(Key("MALLOC_TRIM_THRESHOLD_"))));
}

TEST_F(AgentCommandTest, DevicesAreCountedAmongTheVisibleOnes) {
  options.visible_devices = "6, GPU-0123";
  EXPECT_THAT(rank_command(options, start, start.slots[1], false).environment,
              Contains(Pair("CUDA_VISIBLE_DEVICES", "GPU-0123")));
  start.slots[1].device = 2;
  EXPECT_THROW(rank_command(options, start, start.slots[1], false), Error);
}

}  // namespace
}  // namespace gputrain

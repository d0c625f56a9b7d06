// The agent's conversation with its controller when nothing fails (agent_failure_test.cpp: when something does).
#include "launch/agent.h"

#include <filesystem>

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "agent_harness.h"
#include "sys/fd.h"
#include "wire/connection.h"

namespace gputrain {
namespace {

using testing::AgentProcess;
using ::testing::ElementsAre;
using testing::eventually;
using ::testing::HasSubstr;
using testing::is_gone;
using testing::process_state;
using testing::read_text;

bool can_connect(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
  const UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  return connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
}

std::string kind_of(const RankRecord& record) {
  return Json::parse(record.record)["kind"];
}

TEST(AgentTest, SaysHello) {
  AgentOptions options;
  options.gpus = 3;
  AgentProcess agent("", options);
  const auto hello = agent.expect<AgentHello>();
  EXPECT_EQ(hello.version, program_version());
  EXPECT_EQ(hello.pid, agent.pid());
  EXPECT_EQ(hello.host, host_name());
  EXPECT_EQ(hello.cores, cpu_count());
  EXPECT_EQ(hello.gpus, 3);
  EXPECT_EQ(hello.boot_id, boot_id());
}

TEST(AgentTest, RunsAnAttemptToItsEnd) {
  AgentProcess agent("");
  agent.start_and_await_ready(2);
  agent.send(Go{1});
  const auto sync = agent.expect<RankSync>();
  EXPECT_EQ(sync.attempt, 1);
  EXPECT_EQ(sync.rank, 0);
  for (int step = 1; step <= 3; ++step) {
    const auto record = agent.expect<RankRecord>();
    EXPECT_EQ(record.rank, 0);
    EXPECT_EQ(Json::parse(record.record)["step"], step);
  }
  EXPECT_EQ(agent.expect<RankDone>().rank, 1) << "rank 0 waits until its records are safe";
  EXPECT_EQ(agent.count_waiting<RankRecord>(), 0) << "the checkpoint is told before it was allowed";
  agent.send(Synced{1, 0, sync.id});
  EXPECT_EQ(kind_of(agent.expect<RankRecord>()), "checkpoint");
  const auto done = agent.expect<RankDone>();
  EXPECT_EQ(done.rank, 0);
  EXPECT_EQ(done.done["outcome"], "complete");
  EXPECT_EQ(agent.count_waiting<RankExited>(), 0) << "ranks wait for their release";
  agent.send(Release{1});
  for (int i = 0; i < 2; ++i) {
    const auto exited = agent.expect<RankExited>();
    EXPECT_EQ(exited.pid, agent.pids[static_cast<size_t>(exited.rank)]);
    EXPECT_EQ(exited.code, 0);
    EXPECT_EQ(exited.signal, 0);
    EXPECT_FALSE(exited.killed_by_us);
    EXPECT_EQ(exited.exec_errno, 0);
    EXPECT_EQ(exited.progress.step, 3u);
    EXPECT_EQ(exited.progress.phase, "idle");
    EXPECT_EQ(exited.progress.collectives, 3u);
  }
  agent.send(Bye{});
  EXPECT_EQ(agent.wait_exit(), 0);
  EXPECT_EQ(agent.stderr_text(), "");
}

TEST(AgentTest, OutlivesAttempts) {
  AgentProcess agent(R"({"*@1": [{"ready": {}}, {"exit": 3}], "*@2": [{"ready": {}}, {"exit": 4}]})");
  for (int attempt : {1, 2}) {
    agent.send(agent.start(2, attempt));
    for (int rank : {0, 1}) {
      const auto exited = agent.expect<RankExited>();
      EXPECT_EQ(exited.attempt, attempt) << rank;
      EXPECT_EQ(exited.code, 2 + attempt);
    }
  }
  agent.send(Bye{});
  EXPECT_EQ(agent.wait_exit(), 0);
}

TEST(AgentTest, ListensForTheStoreUntilRankZeroHasTheSocket) {
  AgentProcess agent(R"({"*": [{"ready": {}}, {"wait": "release"}]})");
  agent.send(Listen{1, "127.0.0.1", 2000});
  const auto listening = agent.expect<Listening>();
  EXPECT_EQ(listening.attempt, 1);
  EXPECT_EQ(listening.address, "127.0.0.1");
  EXPECT_EQ(listening.problem, "");
  ASSERT_GT(listening.port, 0);
  EXPECT_TRUE(can_connect(listening.port));
  agent.start_and_await_ready(2);
  EXPECT_TRUE(can_connect(listening.port)) << "rank 0 holds it";
  agent.send(Release{1});
  agent.expect<RankExited>();
  agent.expect<RankExited>();
  EXPECT_FALSE(can_connect(listening.port)) << "the agent kept its copy";
}

TEST(AgentTest, AnAddressThatIsNotOursIsAProblemNotAnEnd) {
  AgentProcess agent("");
  agent.send(Listen{1, "192.0.2.1", 2000});
  const auto listening = agent.expect<Listening>();
  EXPECT_EQ(listening.port, 0);
  EXPECT_THAT(listening.problem, HasSubstr("cannot listen on 192.0.2.1"));
  agent.send(Listen{2, "127.0.0.1", 2000});
  EXPECT_GT(agent.expect<Listening>().port, 0);
}

TEST(AgentTest, GivesEachRankItsEnvironmentDescriptorsAndAssignment) {
  AgentProcess agent(R"({"*": [{"print_env": "RANK"}, {"print_env": "LOCAL_RANK"}, {"print_env": "WORLD_SIZE"},
      {"print_env": "LOCAL_WORLD_SIZE"}, {"print_env": "GROUP_RANK"}, {"print_env": "MASTER_ADDR"}, {"print_env": "MASTER_PORT"},
      {"print_env": "TORCHELASTIC_RESTART_COUNT"}, {"print_env": "TORCHELASTIC_RUN_ID"}, {"print_env": "OMP_NUM_THREADS"},
      {"print_fds": true}, {"print_assign": true}, {"ready": {}}, {"wait": "go"}, {"exit": 0}]})");
  agent.send(Listen{2, "127.0.0.1", 2000});
  agent.expect<Listening>();
  Start start = agent.start(2, 2);
  start.world_size = 6;
  start.group_rank = 1;
  start.slots = {{4, 0, -1, 3}, {0, 1, -1, 5}};  // rank 0 need not be the first slot
  start.resume = {"path", "/somewhere"};
  agent.send(start);
  agent.expect<RankReady>();
  agent.expect<RankReady>();
  agent.send(Go{2});
  agent.expect<RankExited>();
  agent.expect<RankExited>();

  const std::string logs = agent.output() + "/logs/attempt-0002/";
  const auto expected = [&](const std::string& rank, const std::string& local, const std::string& threads,
                            const std::string& fds, const std::string& store_fd) {
    return "RANK=" + rank + "\nLOCAL_RANK=" + local +
           "\nWORLD_SIZE=6\nLOCAL_WORLD_SIZE=2\nGROUP_RANK=1\nMASTER_ADDR=127.0.0.1\nMASTER_PORT=12345\n"
           "TORCHELASTIC_RESTART_COUNT=1\nTORCHELASTIC_RUN_ID=test-run\nOMP_NUM_THREADS=" +
           threads + "\nfds 0 1 2 3 4" + fds + "\nassign {\"attempt\":2,\"run_id\":\"test-run\",\"rank\":" + rank +
           ",\"world_size\":6,\"local_rank\":" + local +
           ",\"local_world_size\":2,\"device\":-1,\"threads\":" + threads +
           ",\"store_address\":\"127.0.0.1\",\"store_port\":12345,\"store_fd\":" + store_fd +
           ",\"resume\":{\"mode\":\"path\",\"path\":\"/somewhere\"},\"plan\":{\"output\":\"" + agent.output() +
           "\"}}\n";
  };
  EXPECT_EQ(read_text(logs + "rank-00004.log"), expected("4", "0", "3", "", "-1"));
  EXPECT_EQ(read_text(logs + "rank-00000.log"), expected("0", "1", "5", " 5", "5"));
}

TEST(AgentTest, HoldsOutputUntilTheAttemptGoes) {
  AgentProcess agent(
      R"({"*": [{"print": "before\n"}, {"ready": {}}, {"wait": "go"}, {"print": "after\n"}, {"exit": 1}]})");
  agent.start_and_await_ready(1);
  EXPECT_FALSE(std::filesystem::exists(agent.output()));
  agent.send(Go{1});
  const auto exited = agent.expect<RankExited>();
  EXPECT_EQ(exited.log_path, agent.output() + "/logs/attempt-0001/rank-00000.log");
  EXPECT_EQ(read_text(exited.log_path), "before\nafter\n");
  EXPECT_EQ(exited.log_tail, "before\nafter\n");
}

TEST(AgentTest, LeavesNoFileWhenTheAttemptNeverGoes) {
  AgentProcess agent(
      R"({"*": [{"print": "last words"}, {"error": {"kind": "data", "message": "no such file", "where": "/d", "hint": "h"}}]})");
  agent.send(agent.start(1));
  const auto error = agent.expect<RankError>();
  EXPECT_EQ(error.error.kind, ErrorKind::kData);
  EXPECT_EQ(error.error.message, "no such file");
  EXPECT_EQ(error.error.where, "/d");
  EXPECT_EQ(error.error.hint, "h");
  const auto exited = agent.expect<RankExited>();
  EXPECT_EQ(exited.code, 65);
  EXPECT_EQ(exited.log_path, "");
  EXPECT_EQ(exited.log_tail, "last words\n");
  EXPECT_FALSE(std::filesystem::exists(agent.output()));
}

TEST(AgentTest, StopIsRelayedWithItsReason) {
  AgentProcess agent("");
  agent.start_and_await_ready(2);
  agent.send(Stop{1, StopReason::kUserStop, 5000});
  const auto sync = agent.expect<RankSync>();
  agent.send(Synced{1, 0, sync.id});
  for (int i = 0; i < 2; ++i) {
    const auto done = agent.expect<RankDone>();
    EXPECT_EQ(done.done["outcome"], "stopped");
    EXPECT_EQ(done.done["reason"], "stopped");
  }
  agent.send(Release{1});
  for (int i = 0; i < 2; ++i) EXPECT_EQ(agent.expect<RankExited>().code, 0);
}

// A worker must be assigned its work before it can understand anything else.
TEST(AgentTest, StopRightAfterStartReachesWorkersAfterTheirAssignment) {
  AgentProcess agent(R"({"*": [{"on_stop": [{"print_assign": true}, {"exit": 7}]}, {"wait": "go"}]})");
  agent.send(agent.start(1));
  agent.send(Stop{1, StopReason::kPreempted, 5000});
  const auto exited = agent.expect<RankExited>();
  EXPECT_EQ(exited.code, 7);
  EXPECT_THAT(exited.log_tail, HasSubstr("\"run_id\":\"test-run\""));
}

TEST(AgentTest, MessagesAboutOtherAttemptsChangeNothing) {
  AgentProcess agent(R"({"*": [{"ready": {}}, {"wait": "go"}, {"exit": 0}]})");
  agent.start_and_await_ready(1, 2);
  for (const Message& stale : {Message(Kill{1}), Message(Go{1}), Message(Stop{1, StopReason::kPreempted, 0}),
                               Message(Release{1}), Message(Kill{3})}) {
    agent.send(stale);
  }
  agent.send(Listen{3, "127.0.0.1", 2000});
  agent.expect<Listening>();  // all of them have been handled
  EXPECT_FALSE(is_gone(agent.pids[0]));
  EXPECT_EQ(agent.count_waiting<RankExited>(), 0);
  agent.send(Go{2});
  EXPECT_EQ(agent.expect<RankExited>().code, 0);
}

TEST(AgentTest, TellsItsOwnSignalsAndRunsOn) {
  AgentProcess agent(R"({"*": [{"ready": {}}, {"wait": "go"}, {"exit": 0}]})");
  agent.start_and_await_ready(1);
  for (const auto& [signal, reason] :
       {std::pair(SIGTERM, StopReason::kPreempted), std::pair(SIGHUP, StopReason::kPreempted),
        std::pair(SIGINT, StopReason::kInterrupted)}) {
    kill(agent.pid(), signal);
    EXPECT_EQ(agent.expect<AgentNotice>().reason, reason) << signal;
  }
  EXPECT_FALSE(is_gone(agent.pids[0]));
  agent.send(Go{1});
  EXPECT_EQ(agent.expect<RankExited>().code, 0);
}

TEST(AgentTest, BeatsForItsLease) {
  AgentProcess agent("");
  agent.expect<AgentHello>();
  poll(nullptr, 0, 1050);  // told none yet: as for the shortest, each 125 ms at ticks of 100 ms
  agent.count_waiting<AgentNotice>();
  EXPECT_GE(agent.heartbeats, 3);
  agent.send(Listen{1, "127.0.0.1", 60000});
  agent.expect<Listening>();
  agent.heartbeats = 0;
  poll(nullptr, 0, 2500);
  agent.count_waiting<AgentNotice>();
  EXPECT_EQ(agent.heartbeats, 2);
}

TEST(AgentTest, PauseStopsRanksAndLetsLeasesAndDeadlinesStandStill) {
  AgentProcess agent(R"({"*": [{"on_stop": [{"wait": "forever"}]}, {"ready": {}}, {"wait": "go"}]})");
  agent.lease_ms = 300;
  agent.start_and_await_ready(1);
  agent.send(Stop{1, StopReason::kPreempted, 0});  // to be killed in 1 s
  agent.send(Pause{});
  EXPECT_TRUE(eventually([&] { return process_state(agent.pids[0]) == 'T'; }));
  poll(nullptr, 0, 1500);  // past the lease and the deadline, in silence
  EXPECT_EQ(agent.heartbeats, 0);
  EXPECT_EQ(process_state(agent.pids[0]), 'T');
  agent.lease_ms = 5000;
  agent.send(Listen{9, "127.0.0.1", 5000});
  agent.send(Continue{});
  EXPECT_TRUE(eventually([&] { return process_state(agent.pids[0]) == 'S'; }));
  poll(nullptr, 0, 400);
  EXPECT_FALSE(is_gone(agent.pids[0])) << "the deadline ran on during the pause";
  EXPECT_TRUE(agent.expect<RankExited>().killed_by_us);
}

TEST(AgentTest, RecordsWaitForCreditWhileEverythingElsePasses) {
  // 9 records of 1 MiB; 4 MiB are granted at first.
  AgentProcess agent(
      R"({"*": [{"ready": {}}, {"wait": "go"}, {"big_records": 9, "bytes": 1048576}, {"done": {}}, {"wait": "release"}, {"exit": 5}]})");
  agent.start_and_await_ready(1);
  agent.send(Go{1});
  for (int i = 0; i < 4; ++i) EXPECT_EQ(Json::parse(agent.expect<RankRecord>().record)["i"], i);
  poll(nullptr, 0, 300);
  EXPECT_EQ(agent.count_waiting<RankRecord>(), 0);
  EXPECT_EQ(agent.count_waiting<RankDone>(), 0) << "it speaks about the records before it";
  agent.send(Listen{2, "127.0.0.1", 2000});
  agent.expect<Listening>();
  agent.send(Credit{2 << 20});
  for (int i = 4; i < 6; ++i) EXPECT_EQ(Json::parse(agent.expect<RankRecord>().record)["i"], i);
  agent.send(Release{1});
  EXPECT_EQ(agent.expect<RankExited>().code, 5) << "an exit is never held back";
  agent.send(Credit{100 << 20});
  for (int i = 6; i < 9; ++i) EXPECT_EQ(Json::parse(agent.expect<RankRecord>().record)["i"], i);
  EXPECT_EQ(agent.expect<RankDone>().rank, 0);
}

}  // namespace
}  // namespace gputrain

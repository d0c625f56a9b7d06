// What an agent does when ranks, its controller or the agent itself die: nobody is left behind, and the truth is told.
#include <cerrno>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "agent_harness.h"

namespace gputrain {
namespace {

using testing::AgentProcess;
using testing::eventually;
using ::testing::HasSubstr;
using testing::is_gone;
using ::testing::MatchesRegex;
using testing::read_text;
using ::testing::StartsWith;

constexpr char kWaiting[] = R"({"*": [{"ready": {}}, {"wait": "forever"}]})";

double seconds_since(MonotonicTime start) {
  return seconds_between(start, real_clock().now());
}

pid_t printed_grandchild(const std::string& text) {
  const auto place = text.find("grandchild ");
  EXPECT_NE(place, std::string::npos) << text;
  return std::atoi(text.c_str() + place + 11);
}

TEST(AgentFailureTest, KillEndsRanksAtOnceAndIsToldAsOurs) {
  AgentProcess agent(kWaiting);
  agent.start_and_await_ready(3);
  const auto start = real_clock().now();
  agent.send(Kill{1});
  for (int i = 0; i < 3; ++i) {
    const auto exited = agent.expect<RankExited>();
    EXPECT_EQ(exited.signal, SIGKILL);
    EXPECT_TRUE(exited.killed_by_us);
    EXPECT_FALSE(exited.oom_killed);
  }
  EXPECT_LT(seconds_since(start), 1);
}

TEST(AgentFailureTest, DeathsByOthersHandsAreNotOurs) {
  AgentProcess agent(R"({"0": [{"ready": {}}, {"progress": {"step": 12, "phase": "backward"}}, {"signal": 11}],
                         "1": [{"ready": {}}, {"signal": 9}], "2": [{"ready": {}}, {"exit": 42}], "3": [{"ready": {}}, {"wait": "forever"}]})");
  agent.send(agent.start(4));
  for (int i = 0; i < 3; ++i) {
    const auto exited = agent.expect<RankExited>();
    EXPECT_FALSE(exited.killed_by_us) << exited.rank;
    EXPECT_FALSE(exited.oom_killed) << exited.rank;
    EXPECT_EQ(exited.signal, exited.rank == 0 ? SIGSEGV : exited.rank == 1 ? SIGKILL : 0);
    EXPECT_EQ(exited.code, exited.rank == 2 ? 42 : 0);
    if (exited.rank == 0) {
      EXPECT_EQ(exited.progress.step, 12u);
      EXPECT_EQ(exited.progress.phase, "backward");
    }
  }
  agent.send(Kill{1});
  EXPECT_TRUE(agent.expect<RankExited>().killed_by_us);
}

// Ended by itself before our kill, though its exit had not been read: the culprit must not look like a victim.
TEST(AgentFailureTest, KillAfterADeathDoesNotClaimIt) {
  AgentProcess agent(R"({"*": [{"ready": {}}, {"wait": "go"}, {"signal": 9}]})");
  agent.start_and_await_ready(1);
  kill(agent.pid(), SIGSTOP);
  agent.send(Go{1});
  kill(agent.pids[0], SIGKILL);
  ASSERT_TRUE(eventually([&] { return is_gone(agent.pids[0]); }));
  agent.send(Kill{1});
  kill(agent.pid(), SIGCONT);
  const auto exited = agent.expect<RankExited>();
  EXPECT_EQ(exited.signal, SIGKILL);
  EXPECT_FALSE(exited.killed_by_us);
}

TEST(AgentFailureTest, LastWordsComeBeforeTheDeath) {
  AgentProcess agent(
      R"({"*": [{"ready": {}}, {"wait": "go"}, {"big_records": 1000, "bytes": 50}, {"print": "end", "times": 20000}, {"signal": 9}]})");
  agent.start_and_await_ready(1);
  agent.send(Go{1});
  const auto messages = agent.all_until<RankExited>();
  int records = 0;
  for (const auto& message : messages) {
    if (!std::holds_alternative<RankRecord>(message)) continue;
    EXPECT_EQ(Json::parse(std::get<RankRecord>(message).record)["i"], records++);
  }
  EXPECT_EQ(records, 1000);
  const auto& exited = std::get<RankExited>(messages.back());
  EXPECT_EQ(std::filesystem::file_size(exited.log_path), 60000u);
}

TEST(AgentFailureTest, SilentControllerLosesItsLease) {
  AgentProcess agent(kWaiting);
  agent.answer_heartbeats = false;
  agent.lease_ms = 700;
  agent.start_and_await_ready(2);
  const auto start = real_clock().now();
  EXPECT_EQ(agent.wait_exit(), 70);
  EXPECT_GT(seconds_since(start), 0.5);
  EXPECT_LT(seconds_since(start), 1.5);
  for (pid_t pid : agent.pids) EXPECT_TRUE(is_gone(pid));
  EXPECT_THAT(agent.stderr_text(), HasSubstr("no message from the controller for 700 ms: ending 2 ranks"));
}

TEST(AgentFailureTest, AnyMessageRenewsTheLeaseAndWithoutRanksThereIsNone) {
  AgentProcess agent(R"({"*": [{"ready": {}}, {"wait": "go"}, {"exit": 0}]})");
  agent.answer_heartbeats = false;
  agent.lease_ms = 300;
  agent.start_and_await_ready(1);
  for (int i = 0; i < 8; ++i) {
    poll(nullptr, 0, 100);
    agent.send(Heartbeat{i});
  }
  agent.send(Go{1});
  EXPECT_EQ(agent.expect<RankExited>().code, 0);
  poll(nullptr, 0, 800);
  agent.send(Bye{});
  EXPECT_EQ(agent.wait_exit(), 0);
}

TEST(AgentFailureTest, RanksEndWithTheControllersConnection) {
  AgentProcess agent(kWaiting);
  agent.start_and_await_ready(2);
  const auto start = real_clock().now();
  agent.hang_up();
  EXPECT_EQ(agent.wait_exit(), 70);
  EXPECT_LT(seconds_since(start), 1);
  for (pid_t pid : agent.pids) EXPECT_TRUE(is_gone(pid));
  EXPECT_THAT(agent.stderr_text(), HasSubstr("the controller has gone: ending 2 ranks"));
}

TEST(AgentFailureTest, PausedRanksEndWithTheControllersConnection) {
  AgentProcess agent(kWaiting);
  agent.start_and_await_ready(1);
  agent.send(Pause{});
  agent.hang_up();
  EXPECT_EQ(agent.wait_exit(), 70);
  EXPECT_TRUE(is_gone(agent.pids[0]));
}

TEST(AgentFailureTest, ByeEndsWhatStillRuns) {
  AgentProcess agent(kWaiting);
  agent.start_and_await_ready(2);
  agent.send(Bye{});
  EXPECT_EQ(agent.wait_exit(), 0);
  for (pid_t pid : agent.pids) EXPECT_TRUE(is_gone(pid));
}

TEST(AgentFailureTest, RanksDieWithTheirKilledAgent) {
  AgentProcess agent(kWaiting);
  agent.start_and_await_ready(2);
  kill(agent.pid(), SIGKILL);
  for (pid_t pid : agent.pids) EXPECT_TRUE(eventually([&] { return is_gone(pid); }, 3)) << pid;
}

TEST(AgentFailureTest, BrokenFramesFromTheControllerEndTheAgent) {
  AgentProcess agent(kWaiting);
  agent.start_and_await_ready(1);
  agent.send(RankStarted{1, 0, 1});  // well formed, but no controller says that
  EXPECT_EQ(agent.wait_exit(), 70);
  EXPECT_TRUE(is_gone(agent.pids[0]));
  EXPECT_THAT(agent.stderr_text(), HasSubstr("the controller sent RankStarted"));
}

TEST(AgentFailureTest, StubbornRanksAreKilledOneSecondAfterTheGraceAllAtOnce) {
  AgentProcess agent(
      R"({"*": [{"ignore_term": true}, {"on_stop": [{"wait": "forever"}]}, {"ready": {}}, {"wait": "go"}]})");
  agent.start_and_await_ready(4);
  const auto start = real_clock().now();
  agent.send(Stop{1, StopReason::kPreempted, 300});
  for (int i = 0; i < 4; ++i) {
    const auto exited = agent.expect<RankExited>();
    EXPECT_EQ(exited.signal, SIGKILL);
    EXPECT_TRUE(exited.killed_by_us);
    EXPECT_GE(seconds_since(start), 1.3);
  }
  EXPECT_LT(seconds_since(start), 2.3);
}

TEST(AgentFailureTest, SecondStopMayShortenTheGraceNotLengthenIt) {
  AgentProcess agent(R"({"*": [{"on_stop": [{"wait": "forever"}]}, {"ready": {}}, {"wait": "go"}]})");
  agent.start_and_await_ready(1);
  const auto start = real_clock().now();
  agent.send(Stop{1, StopReason::kPreempted, 60000});
  agent.send(Stop{1, StopReason::kPreempted, 0});
  agent.send(Stop{1, StopReason::kPreempted, 60000});
  EXPECT_TRUE(agent.expect<RankExited>().killed_by_us);
  EXPECT_LT(seconds_since(start), 2);
}

TEST(AgentFailureTest, ProgramsThatCannotBeExecuted) {
  AgentProcess agent("");
  Start start = agent.start(2);
  start.worker = "/nonexistent/gputrain-worker";
  agent.send(start);
  for (int rank : {0, 1}) {
    const auto exited = agent.expect<RankExited>();
    EXPECT_EQ(exited.rank, rank);
    EXPECT_EQ(exited.exec_errno, ENOENT);
    EXPECT_EQ(exited.pid, 0);
    EXPECT_EQ(exited.log_tail, "cannot execute /nonexistent/gputrain-worker: No such file or directory\n");
  }
  EXPECT_EQ(agent.count_waiting<RankStarted>(), 0);
  start.worker = agent.directory();
  start.attempt = 2;
  agent.send(start);
  EXPECT_EQ(agent.expect<RankExited>().exec_errno, EACCES);
  agent.expect<RankExited>();
  agent.start_and_await_ready(1, 3);  // the agent is as good as new
}

TEST(AgentFailureTest, ADeviceThatIsNotVisibleIsAnErrorOfThatRank) {
  AgentOptions options;
  options.visible_devices = "2";
  AgentProcess agent(kWaiting, options);
  Start start = agent.start(2);
  start.slots[1].device = 1;
  agent.send(start);
  const auto error = agent.expect<RankError>();
  EXPECT_EQ(error.rank, 1);
  EXPECT_EQ(error.error.kind, ErrorKind::kEnvironment);
  EXPECT_THAT(error.error.message, HasSubstr("device 1 is not in CUDA_VISIBLE_DEVICES=2"));
  EXPECT_EQ(agent.expect<RankExited>().code, 69);
  EXPECT_EQ(agent.expect<RankReady>().rank, 0);
}

TEST(AgentFailureTest, GrandchildrenEndWithTheirRank) {
  AgentProcess agent(
      R"({"0": [{"fork_grandchild": "group"}, {"ready": {}}, {"exit": 1}], "1": [{"ready": {}}, {"wait": "forever"}]})");
  agent.send(agent.start(2));
  const auto exited = agent.expect<RankExited>();
  EXPECT_EQ(exited.rank, 0);
  EXPECT_TRUE(eventually([&] { return is_gone(printed_grandchild(exited.log_tail)); }, 3));
}

// One that hid in a session of its own is found as a descendant, before the last exit of the attempt is told.
TEST(AgentFailureTest, HiddenGrandchildrenEndWithTheAttempt) {
  AgentProcess agent(R"({"*": [{"fork_grandchild": "session"}, {"ready": {}}, {"wait": "go"}, {"exit": 0}]})");
  agent.start_and_await_ready(2);
  agent.send(Go{1});
  std::vector<pid_t> hidden;
  for (int i = 0; i < 2; ++i) hidden.push_back(printed_grandchild(agent.expect<RankExited>().log_tail));
  for (pid_t pid : hidden) EXPECT_TRUE(eventually([&] { return is_gone(pid); }, 1)) << pid;
  // Reaped, too: no zombie stays with an agent that lives for days.
  for (pid_t pid : hidden) EXPECT_TRUE(eventually([&] { return testing::process_state(pid) == '-'; }, 3)) << pid;
}

TEST(AgentFailureTest, HiddenGrandchildrenEndWithTheAgent) {
  AgentProcess agent(
      R"({"*": [{"fork_grandchild": "session"}, {"ready": {}}, {"wait": "go"}, {"print": "on"}, {"wait": "forever"}]})");
  agent.start_and_await_ready(1);
  agent.send(Go{1});
  const std::string log = agent.output() + "/logs/attempt-0001/rank-00000.log";
  ASSERT_TRUE(eventually([&] { return read_text(log).find("on") != std::string::npos; }));
  const pid_t hidden = printed_grandchild(read_text(log));
  ASSERT_FALSE(is_gone(hidden));
  agent.hang_up();
  EXPECT_EQ(agent.wait_exit(), 70);
  EXPECT_TRUE(is_gone(hidden));
}

void expect_internal_error(AgentProcess& agent, const std::string& message) {
  agent.send(agent.start(1));
  const auto error = agent.expect<RankError>();
  EXPECT_EQ(error.error.kind, ErrorKind::kInternal);
  EXPECT_THAT(error.error.message, HasSubstr(message));
  const auto exited = agent.expect<RankExited>();
  // The worker may notice its lost connection (code 70) before it is killed.
  EXPECT_TRUE(exited.killed_by_us || exited.code == 70) << exited.code << " " << exited.signal;
}

TEST(AgentFailureTest, WorkersThatBreakTheProtocolAreEnded) {
  AgentProcess garbage(R"({"*": [{"raw": "GPTW is not what follows"}, {"wait": "forever"}]})");
  expect_internal_error(garbage, "its worker sent what is not a message");
  AgentProcess old_worker(R"({"*": [{"hello": {"version": "0.0.1"}}, {"wait": "forever"}]})");
  expect_internal_error(old_worker, "its worker is of version 0.0.1, the agent of " + std::string(program_version()));
}

TEST(AgentFailureTest, ClosedSocketIsJudgedByTheExit) {
  AgentProcess agent(R"({"*": [{"ready": {}}, {"close_socket": true}, {"sleep_ms": 100}, {"exit": 6}]})");
  agent.start_and_await_ready(1);
  const auto exited = agent.expect<RankExited>();
  EXPECT_EQ(exited.code, 6);
  EXPECT_FALSE(exited.killed_by_us);
  EXPECT_EQ(agent.count_waiting<RankError>(), 0);
}

TEST(AgentFailureTest, AFullLogDiskIsToldAndStopsNobody) {
  AgentProcess agent(
      R"({"*": [{"print": "held\n"}, {"ready": {}}, {"wait": "go"}, {"print": "0123456789\n", "times": 1000}, {"steps": 2}, {"exit": 0}]})");
  const std::string log = agent.output() + "/logs/attempt-0001/rank-00000.log";
  std::filesystem::create_directories(agent.output() + "/logs/attempt-0001");
  ASSERT_EQ(symlink("/dev/full", log.c_str()), 0);
  agent.start_and_await_ready(1);
  agent.send(Go{1});
  const auto exited = agent.expect<RankExited>();
  EXPECT_EQ(exited.code, 0);
  EXPECT_EQ(agent.count_waiting<RankRecord>(), 2);
  EXPECT_THAT(exited.log_tail, HasSubstr("0123456789\n"));
  EXPECT_THAT(exited.log_tail, HasSubstr("[gputrain: 11005 bytes of output dropped: No space left on device]\n"));
}

TEST(AgentFailureTest, BinaryAndEndlessOutputIsKeptInTheFileAndTamedInTheTail) {
  AgentProcess agent(
      R"({"*": [{"ready": {}}, {"wait": "go"}, {"print": "\u0000\u001b[31m\u00ff\n"}, {"print": "abcdefghij", "times": 300000}, {"exit": 0}]})");
  agent.start_and_await_ready(1);
  agent.send(Go{1});
  const auto exited = agent.expect<RankExited>();
  const std::string text = read_text(exited.log_path);
  EXPECT_EQ(text.size(), 3000009u);
  EXPECT_THAT(text, StartsWith(std::string("\0\x1b[31m\xc3\xbf\n", 9)));
  EXPECT_THAT(exited.log_tail, StartsWith("\\x00\\x1b[31m"));
  EXPECT_LT(exited.log_tail.size(), 1000u);
}

}  // namespace
}  // namespace gputrain

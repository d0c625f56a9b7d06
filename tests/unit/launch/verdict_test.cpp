#include "launch/verdict.h"

#include <cerrno>
#include <csignal>

#include <gtest/gtest.h>

namespace gputrain {
namespace {

using std::chrono::milliseconds;

FailureReport at(int rank, int ms) {
  FailureReport report;
  report.rank = rank;
  report.host = "local";
  report.at = MonotonicTime(milliseconds(ms));
  return report;
}

FailureReport exited(int rank, int ms, int code) {
  FailureReport report = at(rank, ms);
  report.exited = RankExited{};
  report.exited->rank = rank;
  report.exited->pid = 100 + rank;
  report.exited->code = code;
  return report;
}

FailureReport died(int rank, int ms, int signal) {
  FailureReport report = exited(rank, ms, 0);
  report.exited->signal = signal;
  return report;
}

FailureReport failed(int rank, int ms, ErrorKind kind, const std::string& message = "m") {
  FailureReport report = at(rank, ms);
  report.error = WireError{kind, message, "", ""};
  return report;
}

FailureReport lost_host(int ms) {
  FailureReport report = at(-1, ms);
  report.host_lost = true;
  report.error = WireError{ErrorKind::kEnvironment, "silent for 3.0s", "local", ""};
  return report;
}

TEST(Classify, EveryClass) {
  EXPECT_EQ(classify(died(0, 0, SIGKILL)), FailureClass::kSignal);
  EXPECT_EQ(classify(lost_host(0)), FailureClass::kHostLost);
  EXPECT_EQ(classify(failed(0, 0, ErrorKind::kData)), FailureClass::kError);
  EXPECT_EQ(classify(exited(0, 0, 3)), FailureClass::kExit);
  EXPECT_EQ(classify(failed(0, 0, ErrorKind::kPeerLost)), FailureClass::kPeerLost);
  EXPECT_EQ(classify(at(0, 0)), std::nullopt);
}

TEST(Classify, AProcessThatWeKilledHasNotFailed) {
  FailureReport killed = died(0, 0, SIGKILL);
  killed.exited->killed_by_us = true;
  EXPECT_EQ(classify(killed), std::nullopt);
  killed.error = WireError{ErrorKind::kData, "m", "", ""};  // but it had reported an error before
  EXPECT_EQ(classify(killed), FailureClass::kError);
}

TEST(Classify, ASignalOfItsOwnOutweighsItsTypedError) {
  FailureReport report = died(0, 0, SIGSEGV);
  report.error = WireError{ErrorKind::kData, "m", "", ""};
  EXPECT_EQ(classify(report), FailureClass::kSignal);
}

struct OrderCase {
  const char* name;
  std::vector<FailureReport> reports;
  int culprit;
};

TEST(Judge, OrderOfBlame) {
  // The culprit always reports last: the class decides, not the time.
  const OrderCase cases[] = {
      {"signal over error", {failed(0, 0, ErrorKind::kNonFinite), died(1, 9, SIGKILL)}, 1},
      {"error over exit", {exited(0, 0, 3), failed(1, 9, ErrorKind::kData)}, 1},
      {"exit over lost peer", {failed(0, 0, ErrorKind::kPeerLost), exited(1, 9, 3)}, 1},
      {"error over lost peer", {failed(0, 0, ErrorKind::kPeerLost), failed(1, 9, ErrorKind::kOutOfMemory)}, 1},
      {"lost host over lost peer", {failed(0, 0, ErrorKind::kPeerLost), lost_host(9)}, -1},
      {"lost host over exit", {exited(0, 0, 1), lost_host(9)}, -1},
      {"earlier signal before lost host", {died(0, 0, SIGKILL), lost_host(9)}, 0},
      {"earlier lost host before signal", {lost_host(0), died(0, 9, SIGKILL)}, -1},
      {"the first of equals", {exited(0, 9, 3), exited(1, 0, 4)}, 1},
      {"an abort after an error is its echo", {failed(0, 0, ErrorKind::kNonFinite), died(1, 9, SIGABRT)}, 0},
      {"an abort after a kill is its echo", {died(1, 9, SIGABRT), died(0, 0, SIGKILL)}, 0},
      {"an abort before an error is the cause", {failed(0, 9, ErrorKind::kNonFinite), died(1, 0, SIGABRT)}, 1},
      {"an abort after a lost peer is the cause", {failed(0, 0, ErrorKind::kPeerLost), died(1, 9, SIGABRT)}, 1},
      {"killed ones are nobody", {at(0, 0), exited(1, 9, 3)}, 1},
  };
  for (const auto& item : cases) EXPECT_EQ(judge(item.reports, 2).rank, item.culprit) << item.name;
}

struct CodeCase {
  FailureReport report;
  int exit_code;
  bool retryable;
  const char* cause;
};

TEST(Judge, ExitCodeRetryAndCause) {
  FailureReport not_found = exited(0, 0, 0), cannot = exited(0, 0, 0), linker = exited(0, 0, 127);
  not_found.exited->exec_errno = ENOENT;
  cannot.exited->exec_errno = EACCES;
  linker.before_ready = true;
  const CodeCase cases[] = {
      {died(0, 0, SIGKILL), 137, true, "signal/SIGKILL"},
      {died(0, 0, SIGSEGV), 139, true, "signal/SIGSEGV"},
      {lost_host(0), 69, true, "host_lost"},
      {failed(0, 0, ErrorKind::kUsage), 2, false, "error/usage"},
      {failed(0, 0, ErrorKind::kSpec), 64, false, "error/spec"},
      {failed(0, 0, ErrorKind::kData), 65, false, "error/data"},
      {failed(0, 0, ErrorKind::kEnvironment), 69, false, "error/environment"},
      {failed(0, 0, ErrorKind::kInternal), 70, false, "error/internal"},
      {failed(0, 0, ErrorKind::kOutput), 73, false, "error/output"},
      {failed(0, 0, ErrorKind::kCheckpoint), 74, false, "error/checkpoint"},
      {failed(0, 0, ErrorKind::kNonFinite), 1, false, "error/non_finite"},
      {failed(0, 0, ErrorKind::kOutOfMemory), 1, true, "error/out_of_memory"},
      {failed(0, 0, ErrorKind::kPeerLost), 1, true, "peer_lost"},
      {exited(0, 0, 1), 1, true, "exit/1"},
      {exited(0, 0, 63), 63, true, "exit/63"},
      {exited(0, 0, 2), 1, true, "exit/2"},
      {exited(0, 0, 64), 1, true, "exit/64"},
      {exited(0, 0, 75), 1, true, "exit/75"},
      {exited(0, 0, 255), 1, true, "exit/255"},
      {exited(0, 0, 127), 1, true, "exit/127"},  // it had been ready: its own code
      {linker, 127, false, "error/not_found"},
      {exited(0, 0, 70), 70, false, "error/internal"},
      {exited(0, 0, 0), 70, false, "error/internal"},
      {not_found, 127, false, "error/not_found"},
      {cannot, 126, false, "error/cannot_execute"},
  };
  for (const auto& item : cases) {
    const Verdict verdict = judge({item.report}, 1);
    EXPECT_EQ(verdict.exit_code, item.exit_code) << item.cause;
    EXPECT_EQ(verdict.retryable, item.retryable) << item.cause;
    EXPECT_EQ(verdict.cause, item.cause);
  }
}

TEST(Judge, CountsRanksAndHostsOfTheSameError) {
  auto other_host = failed(2, 5, ErrorKind::kData, "missing");
  other_host.host = "gpu-2";
  const Verdict verdict = judge({failed(0, 1, ErrorKind::kData, "missing"), failed(1, 2, ErrorKind::kData, "missing"),
                                 other_host, failed(3, 3, ErrorKind::kData, "truncated"),
                                 failed(4, 4, ErrorKind::kData, "truncated"), failed(5, 4, ErrorKind::kPeerLost)},
                                8);
  EXPECT_EQ(verdict.rank, 0);
  EXPECT_EQ(verdict.same_ranks, 3);
  EXPECT_EQ(verdict.same_hosts, 2);
  ASSERT_EQ(verdict.others.size(), 1u);
  EXPECT_EQ(verdict.others[0].message, "truncated");
  EXPECT_EQ(verdict.victims, 5);
}

TEST(Judge, OurOwnKillIsNotTheCulpritsSignal) {
  FailureReport report = failed(1, 0, ErrorKind::kNonFinite);
  report.exited = died(1, 0, SIGKILL).exited;
  report.exited->killed_by_us = true;
  const Verdict verdict = judge({report}, 2);
  EXPECT_EQ(verdict.signal, 0);
  EXPECT_EQ(verdict.pid, 101);
  EXPECT_EQ(verdict.exit_code, 1);
}

TEST(Describe, SaysWhoHowAndWhere) {
  FailureReport report = died(1, 0, SIGKILL);
  report.exited->pid = 4321;
  report.progress = {17, "backward", 3};
  EXPECT_EQ(describe(judge({report}, 2)), "rank 1 (pid 4321) on local was killed by SIGKILL at step 17 (backward)");
  report.exited->oom_killed = true;
  report.progress = {0, "set-up", 0};
  EXPECT_EQ(describe(judge({report}, 2)),
            "rank 1 (pid 4321) on local was killed by SIGKILL (the kernel's out-of-memory killer) during set-up");
  EXPECT_EQ(describe(judge({exited(0, 0, 3)}, 2)), "rank 0 (pid 100) on local exited with 3");
  EXPECT_EQ(describe(judge({failed(0, 0, ErrorKind::kData)}, 2)), "rank 0 on local failed");
  EXPECT_EQ(describe(judge({lost_host(0)}, 2)), "the agent on local was lost");
}

}  // namespace
}  // namespace gputrain

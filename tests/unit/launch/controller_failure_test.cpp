// The controller when ranks, agents or itself fail: restarts, budgets, verdicts.
#include <gmock/gmock.h>

#include "controller_harness.h"
#include "launch/lock.h"

namespace gputrain {
namespace {

using testing::ControllerTest;
using ::testing::ElementsAre;
using testing::eventually;
using ::testing::HasSubstr;
using testing::is_gone;
using ::testing::Not;

// Two steps, a checkpoint, then what `then` says, in attempt 1; attempt 2 resumes at step 2 and completes.
std::string fails_once(const std::string& then) {
  return R"({"1@1": [{"ready": {}}, {"wait": "go"}, {"sleep_ms": 100}, )" + then + R"(, {"wait": "forever"}],
             "*@1": [{"ready": {}}, {"wait": "go"}, {"steps": 2}, {"checkpoint": true}, {"wait": "forever"}],
             "*": [{"ready": {"step": 2, "resumed_from": "checkpoints/step-00000002"}}, {"wait": "go"}, {"steps": 1},
                   {"checkpoint": true}, {"done": {}}, {"wait": "release"}, {"exit": 0}]})";
}

constexpr char kProgress[] = R"({"progress": {"step": 3, "phase": "backward"}}, )";

TEST_F(ControllerTest, RestartsAfterSigkill) {
  EXPECT_EQ(launch(fails_once(std::string(kProgress) + R"({"signal": 9})")), 0);
  EXPECT_THAT(steps(), ElementsAre(1, 2, 3));
  ASSERT_EQ(events("failure").size(), 1u);
  const Json failure = events("failure")[0];
  EXPECT_EQ(failure["class"], "signal");
  EXPECT_EQ(failure["rank"], 1);
  EXPECT_EQ(failure["signal"], "SIGKILL");
  EXPECT_EQ(failure["step"], 3);
  EXPECT_EQ(failure["phase"], "backward");
  EXPECT_EQ(failure["victims"], 1);
  EXPECT_EQ(failure["restart"], true);
  const std::string pid = std::to_string(failure["pid"].get<int>());
  EXPECT_THAT(sink(),
              HasSubstr("notice rank 1 (pid " + pid + ") on local was killed by SIGKILL at step 3 (backward); " +
                        "restarting from step 2, restart 1 of 2\n"));
  EXPECT_EQ(events("start")[1]["resumed_step"], 2);
  EXPECT_EQ(result_["attempt"], 2);
}

TEST_F(ControllerTest, AnUntypedExitPassesThroughWhenTheBudgetIsSpent) {
  EXPECT_EQ(launch(R"({"1": [{"ready": {}}, {"wait": "go"}, {"print": "last words\n"}, {"exit": 3}],
                       "0": [{"ready": {}}, {"wait": "go"}, {"wait": "forever"}]})"),
            3);
  EXPECT_EQ(events("start").size(), 3u);  // two restarts
  EXPECT_EQ(events("failure").size(), 3u);
  EXPECT_EQ(result_["outcome"], "failed");
  EXPECT_EQ(result_["culprit"]["code"], 3);
  EXPECT_EQ(result_["restarts"], 2);
  EXPECT_THAT(summary_, HasSubstr("rank 1 (pid "));
  EXPECT_THAT(summary_, HasSubstr("exited with 3"));
  EXPECT_THAT(summary_, HasSubstr("2 restarts used"));
  EXPECT_THAT(summary_, HasSubstr("logs/attempt-0003/rank-00001.log:\n  | last words\n"));
}

TEST_F(ControllerTest, ACodeOfOurTableBecomesOne) {
  options_.plan.launch.max_restarts = 0;
  EXPECT_EQ(
      launch(R"({"1": [{"ready": {}}, {"wait": "go"}, {"exit": 75}], "0": [{"ready": {}}, {"wait": "forever"}]})"), 1);
  EXPECT_EQ(result_["culprit"]["code"], 75);
}

TEST_F(ControllerTest, ASignalIs128PlusItsNumber) {
  options_.plan.launch.max_restarts = 0;
  EXPECT_EQ(
      launch(R"({"1": [{"ready": {}}, {"wait": "go"}, {"signal": 11}], "0": [{"ready": {}}, {"wait": "forever"}]})"),
      139);
  EXPECT_EQ(result_["outcome"], "signal");
  EXPECT_EQ(result_["culprit"]["signal"], "SIGSEGV");
}

TEST_F(ControllerTest, DifferentCausesAre93) {
  EXPECT_EQ(
      launch(
          R"({"1@1": [{"ready": {}}, {"wait": "go"}, {"exit": 3}], "1@2": [{"ready": {}}, {"wait": "go"}, {"exit": 4}],
                       "1@3": [{"ready": {}}, {"wait": "go"}, {"exit": 3}], "0": [{"ready": {}}, {"wait": "forever"}]})"),
      93);
  EXPECT_EQ(result_["outcome"], "no-progress");
  EXPECT_EQ(result_["culprit"]["code"], 3);
}

TEST_F(ControllerTest, TheCountSurvivesARelaunch) {
  options_.plan.launch.max_restarts = 1;
  const std::string script =
      R"({"1": [{"ready": {}}, {"wait": "go"}, {"exit": 3}], "0": [{"ready": {}}, {"wait": "forever"}]})";
  EXPECT_EQ(launch(script), 3);
  EXPECT_EQ(events("start").size(), 2u);
  EXPECT_EQ(launch(script), 3);
  EXPECT_EQ(events("start").size(), 3u);  // no restart is left
  options_.plan.seed = 2;                 // another plan starts anew
  EXPECT_EQ(launch(script), 3);
  EXPECT_EQ(events("start").size(), 5u);
}

TEST_F(ControllerTest, ANewCheckpointStartsTheCountAgain) {
  options_.plan.launch.max_restarts = 1;
  std::string script = R"({"1": [{"ready": {}}, {"wait": "go"}, {"sleep_ms": 100}, {"exit": 3}])";
  for (int attempt = 1; attempt <= 3; ++attempt) {
    script += R"(, "0@)" + std::to_string(attempt) + R"(": [{"ready": {"step": )" + std::to_string(attempt - 1) +
              R"(}}, {"wait": "go"}, {"steps": 1}, {"checkpoint": true}, {"wait": "forever"}])";
  }
  script += R"(, "0": [{"ready": {"step": 3}}, {"wait": "forever"}]})";
  EXPECT_EQ(launch(script), 3);
  EXPECT_EQ(events("start").size(), 4u);  // each of 1, 2, 3 saves and fails once; 4 fails again at step 3
  EXPECT_THAT(steps(), ElementsAre(1, 2, 3));
}

TEST_F(ControllerTest, AnExitBeforeReleaseIs70) {
  EXPECT_EQ(
      launch(
          R"({"1": [{"ready": {}}, {"wait": "go"}, {"done": {}}, {"exit": 0}], "0": [{"ready": {}}, {"wait": "forever"}]})"),
      70);
  EXPECT_EQ(events("start").size(), 1u);
  EXPECT_THAT(summary_, HasSubstr("exited 0 before its release"));
}

TEST_F(ControllerTest, ALostPeerIsAVictim) {
  options_.plan.launch.max_restarts = 0;
  EXPECT_EQ(
      launch(R"({"0": [{"ready": {}}, {"wait": "go"}, {"error": {"kind": "peer_lost", "message": "connection closed"}}],
                       "1": [{"ready": {}}, {"wait": "go"}, {"sleep_ms": 200}, {"signal": 9}]})"),
      137);
  EXPECT_EQ(result_["culprit"]["rank"], 1);
}

TEST_F(ControllerTest, ALostPeerWithoutACulpritIsTheCulprit) {
  options_.plan.launch.max_restarts = 0;
  EXPECT_EQ(
      launch(R"({"0": [{"ready": {}}, {"wait": "go"}, {"error": {"kind": "peer_lost", "message": "connection closed"}}],
                       "1": [{"ready": {}}, {"wait": "forever"}]})"),
      1);
  EXPECT_EQ(result_["culprit"]["rank"], 0);
  EXPECT_EQ(result_["error"]["kind"], "peer_lost");
}

TEST_F(ControllerTest, ASetUpFailureThatIsRetriedIsOnRecord) {
  EXPECT_EQ(launch(R"({"1@1": [{"signal": 9}], "*@1": [{"ready": {}}, {"wait": "forever"}]})"), 0);
  const auto starts = events("start");
  ASSERT_EQ(starts.size(), 2u);
  EXPECT_EQ(starts[0]["set_up_failed"], true);
  EXPECT_EQ(starts[1]["attempt"], 2);
  EXPECT_EQ(events("failure").size(), 1u);
}

TEST_F(ControllerTest, WhatASetUpFailureChangedInTheSpecIsOnRecord) {
  EXPECT_EQ(launch(""), 0);
  options_.plan.train.epochs = 2;
  EXPECT_EQ(launch(R"({"1@2": [{"signal": 9}], "*@2": [{"ready": {}}, {"wait": "forever"}]})"), 0);
  const auto starts = events("start");
  ASSERT_EQ(starts.size(), 3u);
  EXPECT_EQ(starts[1]["set_up_failed"], true);
  ASSERT_TRUE(starts[1].contains("changes"));
  EXPECT_EQ(starts[1]["changes"][0]["key"], "train.epochs");
  EXPECT_EQ(starts[2]["changes"], starts[1]["changes"]) << "people see this one";
}

TEST_F(ControllerTest, SmokeRetriesNothing) {
  options_.plan.smoke = true;
  EXPECT_EQ(
      launch(R"({"1": [{"ready": {}}, {"wait": "go"}, {"signal": 9}], "0": [{"ready": {}}, {"wait": "forever"}]})"),
      137);
  EXPECT_EQ(events("start").size(), 1u);
}

TEST_F(ControllerTest, AKilledAgentIsReplaced) {
  set_hosts(2, 1);
  start(R"({"*@1": [{"ready": {}}, {"wait": "go"}, {"steps": 1}, {"wait": "forever"}]})");
  ASSERT_TRUE(wait_for_step(1));
  // The second agent: the newest child of the controller that is not the first one's.
  const auto children = testing::children_of(pid_);
  ASSERT_EQ(children.size(), 2u);
  const auto ranks = testing::children_of(children[1]);
  ASSERT_EQ(ranks.size(), 1u);
  kill(children[1], SIGKILL);
  EXPECT_EQ(wait(), 0);
  EXPECT_TRUE(is_gone(ranks[0]));
  ASSERT_EQ(events("failure").size(), 1u);
  EXPECT_EQ(events("failure")[0]["class"], "host_lost");
  EXPECT_EQ(events("failure")[0]["rank"], -1);
  EXPECT_THAT(
      sink(),
      HasSubstr("the agent on local was lost: it was killed by SIGKILL; restarting from the start, restart 1 of 2"));
}

TEST_F(ControllerTest, ASilentAgentIsLostAfterItsLease) {
  options_.plan.launch.lease = std::chrono::milliseconds(1400);
  start(R"({"*@1": [{"ready": {}}, {"wait": "go"}, {"steps": 1}, {"wait": "forever"}]})");
  ASSERT_TRUE(wait_for_step(1));
  const auto children = testing::children_of(pid_);
  ASSERT_EQ(children.size(), 1u);
  kill(children[0], SIGSTOP);
  EXPECT_EQ(wait(), 0);
  EXPECT_THAT(sink(), HasSubstr("the agent on local was lost: silent for 2.1s"));
}

TEST_F(ControllerTest, TheShortestLeaseHolds) {
  set_hosts(2, 1);
  options_.plan.launch.lease = kShortestLease;
  EXPECT_EQ(launch(R"({"*": [{"ready": {}}, {"wait": "go"}, {"sleep_ms": 2000}, {"steps": 3}, {"checkpoint": true},
                             {"done": {}}, {"wait": "release"}, {"exit": 0}]})"),
            0);
  EXPECT_EQ(events("failure").size(), 0u);
  EXPECT_THAT(sink(), Not(HasSubstr("lost")));
}

TEST_F(ControllerTest, ChildrenOfTheShellThatBecameUsAreLeftAlone) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  in_child_ = [&] {
    const pid_t other = fork();
    if (other == 0) {
      alarm(60);
      while (true) pause();
    }
    ASSERT_EQ(write(ends[1], &other, sizeof other), static_cast<ssize_t>(sizeof other));
  };
  start(R"({"*@1": [{"ready": {}}, {"wait": "go"}, {"steps": 1}, {"wait": "forever"}]})");
  pid_t other = -1;
  ASSERT_EQ(read(ends[0], &other, sizeof other), static_cast<ssize_t>(sizeof other));
  ASSERT_TRUE(wait_for_step(1));
  const auto children = testing::children_of(pid_);
  ASSERT_EQ(children.size(), 2u);
  ASSERT_EQ(children[0], other);
  kill(children[1], SIGKILL);  // the agent, so that orphans are sought in the middle of the run too
  EXPECT_EQ(wait(), 0);
  EXPECT_FALSE(is_gone(other));
  kill(other, SIGKILL);
  for (const int end : ends) close(end);
}

TEST_F(ControllerTest, NothingOutlivesAKilledController) {
  set_hosts(2, 1);
  start(R"({"*": [{"ready": {}}, {"wait": "go"}, {"fork_grandchild": "session"}, {"steps": 1}, {"wait": "forever"}]})");
  ASSERT_TRUE(wait_for_step(1));
  std::vector<pid_t> family;
  for (const pid_t agent : testing::children_of(pid_)) {
    family.push_back(agent);
    for (const pid_t rank : testing::children_of(agent)) {
      family.push_back(rank);
      for (const pid_t grandchild : testing::children_of(rank)) family.push_back(grandchild);
    }
  }
  ASSERT_EQ(family.size(), 6u);
  signal(SIGKILL);
  EXPECT_EQ(wait(), -SIGKILL);
  for (const pid_t pid : family) EXPECT_TRUE(eventually([&] { return is_gone(pid); }, 3)) << pid;
  // The next launch takes the lock over and goes on.
  EXPECT_EQ(launch(""), 0);
  EXPECT_THAT(sink(), HasSubstr("notice took over the lock of pid "));
  EXPECT_EQ(events("start")[1]["attempt"], 2);
}

TEST_F(ControllerTest, AFullDiskIs73ThoughItsFailureCannotBeRecordedEither) {
  start(R"({"*": [{"ready": {}}, {"wait": "go"}, {"steps": 30}, {"sleep_ms": 500}, {"steps": 1000, "every_ms": 20}]})");
  ASSERT_TRUE(wait_for_step(30));
  fill_disk(40);
  EXPECT_EQ(wait(), 73);
  EXPECT_EQ(result_["outcome"], "output");
  EXPECT_THAT(summary_, HasSubstr("cannot write " + output_ + "/events.jsonl"));
  EXPECT_TRUE(written_);
  EXPECT_EQ(written_result(), result_);
  EXPECT_EQ(events("failure").size(), 0u);
}

TEST_F(ControllerTest, AFullDiskDoesNotHideARanksDeath) {
  start(R"({"1": [{"ready": {}}, {"wait": "go"}, {"sleep_ms": 1500}, {"signal": 9}],
            "0": [{"ready": {}}, {"wait": "go"}, {"steps": 30}, {"wait": "forever"}]})");
  ASSERT_TRUE(wait_for_step(30));
  fill_disk(0);
  EXPECT_EQ(wait(), 73);  // the failure record is what could not be written: no restart without it
  EXPECT_EQ(events("start").size(), 1u);
}

TEST_F(ControllerTest, ALostLockIs73) {
  start(
      R"({"*": [{"ready": {}}, {"wait": "go"}, {"wait": "forever"}], "0": [{"ready": {}}, {"wait": "go"}, {"sleep_ms": 300}, {"steps": 9}, {"wait": "forever"}]})");
  ASSERT_TRUE(wait_for_event("start"));
  // The lock in other hands: the controller must not go on.
  std::filesystem::rename(output_ + "/lock", output_ + "/lock.mine");
  std::filesystem::copy(output_ + "/lock.mine", output_ + "/lock");
  EXPECT_EQ(wait(), 73);
  EXPECT_THAT(summary_, HasSubstr("another run has taken over"));
  EXPECT_TRUE(exists("lock"));  // not ours to remove
}

}  // namespace
}  // namespace gputrain

// The controller when it is asked to end: signals, control socket, deadlines.
#include <gmock/gmock.h>

#include "controller_harness.h"
#include "launch/control_socket.h"

namespace gputrain {
namespace {

using testing::ControllerTest;
using ::testing::ElementsAre;
using testing::eventually;
using ::testing::HasSubstr;

constexpr char kTrains[] = R"({"*": [{"ready": {}}, {"wait": "go"}, {"steps": 2}, {"wait": "forever"}]})";
constexpr char kCannotSave[] =
    R"({"*": [{"ready": {}}, {"on_stop": [{"wait": "forever"}]}, {"wait": "go"}, {"steps": 2}, {"wait": "forever"}]})";

class ControllerStopTest : public ControllerTest {
 protected:
  Json ask(const Json& request) { return control_request(control_socket_path(directory_ / "ctl", output_), request); }
  void start_training(const std::string& script = kTrains) {
    start(script);
    ASSERT_TRUE(wait_for_step(2));
  }
};

TEST_F(ControllerStopTest, SigtermSavesAndIs75) {
  start_training();
  signal(SIGTERM);
  EXPECT_EQ(wait(), 75);
  EXPECT_EQ(result_["outcome"], "preempted");
  EXPECT_EQ(result_["reason"], "preempted");
  EXPECT_EQ(result_["saved"], true);
  EXPECT_EQ(result_["saved_step"], 2);
  EXPECT_EQ(result_["resumable"], true);
  EXPECT_EQ(events("checkpoint").size(), 1u);
  EXPECT_EQ(events("end")[0]["exit_code"], 75);
  EXPECT_EQ(written_result(), result_);
  EXPECT_THAT(summary_,
              HasSubstr("preempted: saved at step 2\ncontinue with: gputrain launch " + output_ + "/spec.yaml\n"));
  EXPECT_EQ(events("failure").size(), 0u);
}

TEST_F(ControllerStopTest, SigtermSavesThoughTheJournalIsFull) {
  start(R"({"*": [{"ready": {}}, {"wait": "go"}, {"steps": 30}, {"wait": "forever"}]})");
  ASSERT_TRUE(wait_for_step(30));
  fill_disk(10);
  signal(SIGTERM);
  EXPECT_EQ(wait(), 75);
  EXPECT_EQ(result_["saved"], true);
  EXPECT_EQ(result_["saved_step"], 30);
  EXPECT_THAT(sink(), HasSubstr("record checkpoint\n"));
  EXPECT_THAT(sink(), HasSubstr("stopping without a record of it\n"));
  EXPECT_THAT(summary_, HasSubstr("gputrain: error: cannot write " + output_ + "/events.jsonl"));
}

TEST_F(ControllerStopTest, SighupIsAPreemptionToo) {
  start_training();
  signal(SIGHUP);
  EXPECT_EQ(wait(), 75);
}

TEST_F(ControllerStopTest, ANohupIsOneForTheAgentsToo) {
  in_child_ = [] { ::signal(SIGHUP, SIG_IGN); };
  start(R"({"*": [{"ready": {}}, {"wait": "go"}, {"steps": 2}, {"sleep_ms": 500}, {"steps": 1}, {"checkpoint": true},
                  {"done": {}}, {"wait": "release"}, {"exit": 0}]})");
  ASSERT_TRUE(wait_for_step(2));
  const auto agents = testing::children_of(pid_);
  ASSERT_EQ(agents.size(), 1u);
  kill(agents[0], SIGHUP);
  signal(SIGHUP);
  EXPECT_EQ(wait(), 0);
  EXPECT_EQ(result_["step"], 3);
}

TEST_F(ControllerStopTest, SigtermToOneRankStopsAll) {
  start_training();
  const auto agents = testing::children_of(pid_);
  ASSERT_EQ(agents.size(), 1u);
  const auto ranks = testing::children_of(agents[0]);
  ASSERT_EQ(ranks.size(), 2u);
  for (const pid_t rank : ranks) kill(rank, SIGTERM);  // fakes have no vote: each must be told
  EXPECT_EQ(wait(), 75);
}

TEST_F(ControllerStopTest, SigtermToTheAgentStopsAll) {
  start_training();
  kill(testing::children_of(pid_).at(0), SIGTERM);
  EXPECT_EQ(wait(), 75);
}

TEST_F(ControllerStopTest, AnUnsavedPreemptionIs76) {
  options_.plan.launch.grace = std::chrono::milliseconds(300);
  start_training(kCannotSave);
  signal(SIGTERM);
  const auto before = real_clock().now();
  EXPECT_EQ(wait(), 76);
  EXPECT_LT(seconds_between(before, real_clock().now()), 2.5);  // grace + 1 s
  EXPECT_EQ(result_["saved"], false);
  EXPECT_THAT(summary_, HasSubstr("preempted: not saved, no checkpoint yet"));
}

TEST_F(ControllerStopTest, NothingNewToSaveIs75) {
  start(R"({"*": [{"ready": {"step": 4, "resumed_from": "checkpoints/step-00000004"}},
                  {"on_stop": [{"done": {"outcome": "stopped", "saved_step": -1}}, {"wait": "release"}, {"exit": 0}]},
                  {"wait": "forever"}]})");
  ASSERT_TRUE(wait_for_event("start"));
  signal(SIGTERM);
  EXPECT_EQ(wait(), 75);
  EXPECT_EQ(result_["saved"], true);
}

TEST_F(ControllerStopTest, DuringSetUpNothingIsWritten) {
  start(R"({"0": [{"ready": {}}, {"wait": "forever"}], "1": [{"sleep_ms": 20000}]})");
  ASSERT_TRUE(eventually([&] { return !testing::children_of(pid_).empty(); }));
  poll(nullptr, 0, 300);
  signal(SIGTERM);
  EXPECT_EQ(wait(), 75);
  EXPECT_FALSE(std::filesystem::exists(directory_ / "runs"));
  EXPECT_THAT(summary_, HasSubstr("preempted: nothing new to save"));
}

TEST_F(ControllerStopTest, CtrlCSavesAndIs130) {
  start_training();
  signal(SIGINT);
  EXPECT_EQ(wait(), 130);
  EXPECT_EQ(result_["outcome"], "interrupted");
  EXPECT_EQ(result_["saved"], true);
  EXPECT_THAT(sink(), HasSubstr("Ctrl-C again: now"));
}

TEST_F(ControllerStopTest, CtrlCTwiceDoesNotWait) {
  start_training(kCannotSave);
  signal(SIGINT);
  ASSERT_TRUE(eventually([&] { return sink().find("Ctrl-C again") != std::string::npos; }));
  const auto before = real_clock().now();
  signal(SIGINT);
  EXPECT_EQ(wait(), 130);
  EXPECT_LT(seconds_between(before, real_clock().now()), 1.5);
  EXPECT_EQ(result_["saved"], false);
}

TEST_F(ControllerStopTest, CtrlCTwiceHastensAnyStop) {
  start_training(kCannotSave);
  signal(SIGTERM);
  ASSERT_TRUE(eventually([&] { return sink().find("preempted: saving") != std::string::npos; }));
  signal(SIGINT);
  poll(nullptr, 0, 100);
  const auto before = real_clock().now();
  signal(SIGINT);
  EXPECT_EQ(wait(), 76);
  EXPECT_LT(seconds_between(before, real_clock().now()), 1.5);
}

TEST_F(ControllerStopTest, StopRequestSavesAndIs77) {
  start_training();
  EXPECT_EQ(ask({{"request", "stop"}, {"now", false}}), Json({{"ok", true}}));
  EXPECT_EQ(wait(), 77);
  EXPECT_EQ(result_["saved"], true);
}

TEST_F(ControllerStopTest, StopNowDoesNotSave) {
  start_training(kCannotSave);
  EXPECT_EQ(ask({{"request", "stop"}, {"now", true}}), Json({{"ok", true}}));
  EXPECT_EQ(wait(), 77);
  EXPECT_EQ(result_["saved"], false);
}

TEST_F(ControllerStopTest, StatusTellsWhereTheRunIs) {
  start_training();
  const Json status = ask({{"request", "status"}});
  EXPECT_EQ(status["state"], "running");
  EXPECT_EQ(status["attempt"], 1);
  EXPECT_EQ(status["step"], 2);
  EXPECT_EQ(status["total_steps"], 3);
  EXPECT_EQ(status["output"], output_);
  ASSERT_EQ(status["ranks"].size(), 2u);
  EXPECT_EQ(status["ranks"][1]["rank"], 1);
  EXPECT_EQ(status["ranks"][1]["host"], "local");
  EXPECT_EQ(status["ranks"][1]["state"], "ready");
  EXPECT_EQ(kill(status["ranks"][1]["pid"].get<int>(), 0), 0);
  EXPECT_EQ(ask({{"request", "dance"}})["error"], "unknown request: dance");
}

TEST_F(ControllerStopTest, MaxDurationIs124) {
  options_.plan.launch.max_duration = std::chrono::milliseconds(1500);
  EXPECT_EQ(launch(kTrains), 124);
  EXPECT_EQ(result_["reason"], "max_duration");
  EXPECT_EQ(result_["saved"], true);
  EXPECT_EQ(result_["resumable"], true);
}

TEST_F(ControllerStopTest, ACheckpointErrorWhileStoppingIsTold) {
  start_training(
      R"({"*": [{"ready": {}}, {"on_stop": [{"error": {"kind": "checkpoint", "message": "disk full"}}]}, {"wait": "go"},
                           {"steps": 2}, {"wait": "forever"}]})");
  signal(SIGTERM);
  EXPECT_EQ(wait(), 74);
  EXPECT_THAT(summary_, HasSubstr("gputrain: error: disk full"));
}

TEST_F(ControllerStopTest, CtrlZFreezesEverythingWithoutLosingTheLease) {
  start(R"({"*": [{"ready": {}}, {"wait": "go"}, {"steps": 100, "every_ms": 20}, {"checkpoint": true}, {"done": {}},
                  {"wait": "release"}, {"exit": 0}]})");
  ASSERT_TRUE(wait_for_step(2));
  signal(SIGTSTP);
  ASSERT_TRUE(eventually([&] { return testing::process_state(pid_) == 'T'; }));
  poll(nullptr, 0, 3500);  // longer than the lease and the silence limit
  const auto frozen = steps().size();
  EXPECT_LT(frozen, 100u);
  poll(nullptr, 0, 200);
  EXPECT_EQ(steps().size(), frozen);
  signal(SIGCONT);
  EXPECT_EQ(wait(), 0);
  EXPECT_EQ(steps().size(), 100u);
  EXPECT_EQ(events("failure").size(), 0u);
}

}  // namespace
}  // namespace gputrain

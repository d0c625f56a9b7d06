// The controller over real agents and scripted ranks: success, set-up errors, resumed and finished runs.
#include <gmock/gmock.h>

#include "controller_harness.h"
#include "launch/lock.h"

namespace gputrain {
namespace {

using testing::ControllerTest;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST_F(ControllerTest, RunsToTheEnd) {
  EXPECT_EQ(launch(""), 0);
  EXPECT_EQ(result_["outcome"], "done");
  EXPECT_EQ(result_["step"], 3);
  EXPECT_EQ(result_["saved_step"], 3);
  EXPECT_EQ(result_["final"], Json({{"loss", 0.5}}));
  EXPECT_EQ(written_result(), result_);
  EXPECT_TRUE(written_);
  EXPECT_THAT(summary_, HasSubstr("done: 3 steps, loss 0.5; output " + output_));

  std::vector<std::string> kinds;
  for (const auto& event : events()) kinds.push_back(event["kind"]);
  EXPECT_THAT(kinds, ElementsAre("start", "step", "step", "step", "checkpoint", "end"));
  const Json start = events("start")[0];
  EXPECT_EQ(start["attempt"], 1);
  EXPECT_EQ(start["world_size"], 2);
  EXPECT_EQ(start["hosts"], Json({"local"}));
  EXPECT_EQ(start["resumed_step"], 0);
  EXPECT_EQ(start["total_steps"], 3);
  EXPECT_EQ(start["run_id"].get<std::string>().size(), 16u);
  EXPECT_EQ(events("end")[0]["exit_code"], 0);
  EXPECT_EQ(sink(), "record start\nrecord step\nrecord step\nrecord step\nrecord checkpoint\nrecord end\n");
  EXPECT_EQ(testing::read_text(output_ + "/spec.yaml"), options_.spec_text);
  EXPECT_EQ(Json::parse(testing::read_text(output_ + "/plan.json")), to_json(options_.plan));
  EXPECT_TRUE(exists("logs/attempt-0001/rank-00001.log"));
  EXPECT_FALSE(exists("lock"));
  EXPECT_THAT(std::filesystem::is_empty(directory_ / "ctl"), true);  // the socket is gone
}

TEST_F(ControllerTest, TwoAgentsServeOneAttempt) {
  set_hosts(2, 2);
  EXPECT_EQ(launch(""), 0);
  EXPECT_EQ(events("start")[0]["world_size"], 4);
  EXPECT_EQ(events("start")[0]["hosts"], Json({"local", "local"}));
  EXPECT_TRUE(exists("logs/attempt-0001/rank-00003.log"));
}

TEST_F(ControllerTest, AFinishedRunIsLeftAlone) {
  ASSERT_EQ(launch(""), 0);
  const auto before = testing::read_text(output_ + "/events.jsonl");
  EXPECT_EQ(launch(R"({"*": [{"ready": {"complete": true, "step": 3, "resumed_from": "x"}}, {"wait": "forever"}]})"),
            0);
  EXPECT_THAT(summary_, HasSubstr("already complete at step 3"));
  EXPECT_EQ(result_["step"], 3);
  EXPECT_FALSE(written_);
  EXPECT_EQ(testing::read_text(output_ + "/events.jsonl"), before);
  EXPECT_FALSE(exists("lock"));
}

TEST_F(ControllerTest, ARelaunchKeepsTheRunIdAndCountsAttemptsOn) {
  ASSERT_EQ(launch(""), 0);
  options_.plan.train.epochs = 2;
  EXPECT_EQ(launch(R"({"*": [{"ready": {"step": 3, "resumed_from": "checkpoints/step-00000003", "total_steps": 6,
                                        "rejected": [{"checkpoint": "step-00000004", "why": "model.safetensors: wrong hash"}],
                                        "notices": ["3 threads instead of 4"]}},
                              {"wait": "go"}, {"steps": 3}, {"checkpoint": true}, {"done": {}}, {"wait": "release"}]})"),
            0);
  const auto starts = events("start");
  ASSERT_EQ(starts.size(), 2u);
  EXPECT_EQ(starts[0]["run_id"], starts[1]["run_id"]);
  EXPECT_EQ(starts[1]["attempt"], 2);
  EXPECT_EQ(starts[1]["resumed_step"], 3);
  EXPECT_EQ(starts[1]["resumed_from"], "checkpoints/step-00000003");
  EXPECT_EQ(starts[1]["changes"], Json::array({{{"key", "train.epochs"}, {"from", 1}, {"to", 2}}}));
  EXPECT_THAT(steps(), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(sink(), HasSubstr("notice checkpoint step-00000004 was not used: model.safetensors: wrong hash\n"));
  EXPECT_THAT(sink(), HasSubstr("notice 3 threads instead of 4\n"));
  EXPECT_EQ(events("notice").size(), 2u);
}

TEST_F(ControllerTest, ResumeNeverMovesOldCheckpointsAside) {
  ASSERT_EQ(launch(""), 0);
  std::filesystem::create_directories(output_ + "/checkpoints/step-00000003");
  std::filesystem::create_directories(output_ + "/checkpoints.old-1");
  options_.resume.mode = "never";
  EXPECT_EQ(launch(""), 0);
  EXPECT_TRUE(exists("checkpoints.old-2/step-00000003"));
  EXPECT_FALSE(exists("checkpoints"));
  EXPECT_EQ(events("start")[1]["checkpoints_moved_to"], "checkpoints.old-2");
}

TEST_F(ControllerTest, ResumeNeverHoldsOverAFailedSetUp) {
  ASSERT_EQ(launch(""), 0);
  std::filesystem::create_directories(output_ + "/checkpoints/step-00000003");
  options_.resume.mode = "never";
  EXPECT_EQ(launch(R"({"1@2": [{"signal": 9}]})"), 0);
  EXPECT_TRUE(exists("checkpoints.old-1/step-00000003"));
  const auto starts = events("start");
  ASSERT_EQ(starts.size(), 3u);
  EXPECT_EQ(starts[1]["set_up_failed"], true);
  EXPECT_EQ(starts[1].contains("checkpoints_moved_to"), false);
  EXPECT_EQ(starts[2]["resume"], "never");
  EXPECT_EQ(starts[2]["checkpoints_moved_to"], "checkpoints.old-1");
}

TEST_F(ControllerTest, ASetUpErrorLeavesNoTrace) {
  EXPECT_EQ(
      launch(
          R"({"*": [{"error": {"kind": "data", "message": "train-images is missing", "where": "/data/x", "hint": "get it"}}]})"),
      65);
  EXPECT_EQ(summary_.substr(0, summary_.find("failed")),
            "gputrain: error: /data/x: train-images is missing (on 2 ranks of 1 host)\nhint: get it\n");
  EXPECT_FALSE(std::filesystem::exists(directory_ / "runs"));  // not even its parent
  EXPECT_EQ(result_["outcome"], "data");
  EXPECT_EQ(result_["error"]["kind"], "data");
  EXPECT_FALSE(written_);
}

TEST_F(ControllerTest, DifferentSetUpErrorsAreAllTold) {
  EXPECT_EQ(launch(R"({"0": [{"error": {"kind": "data", "message": "first"}}],
                       "1": [{"sleep_ms": 50}, {"error": {"kind": "data", "message": "second"}}]})"),
            65);
  EXPECT_THAT(summary_, HasSubstr("gputrain: error: first\n"));
  EXPECT_THAT(summary_, HasSubstr("gputrain: error: second\n"));
}

TEST_F(ControllerTest, AnErrorAfterGoIsInTheResult) {
  EXPECT_EQ(
      launch(R"({"1": [{"ready": {}}, {"wait": "go"}, {"error": {"kind": "non_finite", "message": "loss is nan"}}],
                       "0": [{"ready": {}}, {"wait": "go"}, {"wait": "forever"}]})"),
      1);
  EXPECT_EQ(result_["outcome"], "failed");
  EXPECT_EQ(result_["error"]["kind"], "non_finite");
  EXPECT_EQ(result_["culprit"]["rank"], 1);
  EXPECT_EQ(written_result(), result_);
  EXPECT_EQ(events("start").size(), 1u);  // never retried
  EXPECT_EQ(events("failure").size(), 1u);
}

TEST_F(ControllerTest, AWorkerThatCannotBeExecuted) {
  options_.worker_program = directory_ / "no-such-worker";
  EXPECT_EQ(launch(""), 127);
  EXPECT_EQ(result_["outcome"], "not-found");
  EXPECT_THAT(summary_, HasSubstr("the worker cannot be executed: No such file or directory"));
  EXPECT_FALSE(std::filesystem::exists(directory_ / "runs"));
  std::ofstream(directory_ / "text-worker") << "not a program";
  options_.worker_program = directory_ / "text-worker";
  EXPECT_EQ(launch(""), 126);
}

TEST_F(ControllerTest, AnAgentThatCannotBeExecuted) {
  options_.agent_program = directory_ / "no-such-agent";
  EXPECT_EQ(launch(""), 127);
  EXPECT_FALSE(std::filesystem::exists(directory_ / "runs"));
}

TEST_F(ControllerTest, AnAgentThatEndsAtOnceIsGivenUp) {
  options_.agent_program = "/bin/false";
  EXPECT_EQ(launch(""), 69);
  EXPECT_THAT(summary_, HasSubstr("it exited with 1"));
  EXPECT_FALSE(std::filesystem::exists(directory_ / "runs"));
}

TEST_F(ControllerTest, ALiveRunIsNotDisturbed) {
  start(R"({"*": [{"ready": {}}, {"wait": "go"}, {"steps": 1}, {"wait": "forever"}]})");
  ASSERT_TRUE(wait_for_step(1));
  const auto holder = read_lock(output_);
  ASSERT_TRUE(holder);
  EXPECT_EQ(holder->pid, pid_);
  EXPECT_EQ(holder->attempt, 1);
  const auto before = testing::read_text(output_ + "/events.jsonl");
  try {
    ControllerOptions second = options_;
    run_controller(second);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind, ErrorKind::kOutput);
    EXPECT_THAT(error.message, HasSubstr("pid " + std::to_string(pid_)));
  }
  EXPECT_EQ(testing::read_text(output_ + "/events.jsonl"), before);
}

TEST_F(ControllerTest, AFullDiskAtTheStartLeavesNoTrace) {
  // A directory where plan.json belongs: the start event cannot be completed.
  std::filesystem::create_directories(output_ + "/plan.json/x");
  EXPECT_EQ(launch(""), 73);
  EXPECT_TRUE(exists("plan.json/x"));
  EXPECT_FALSE(exists("spec.yaml"));
  EXPECT_FALSE(exists("events.jsonl"));
  EXPECT_FALSE(exists("result.json"));
  EXPECT_FALSE(exists("lock"));
}

}  // namespace
}  // namespace gputrain

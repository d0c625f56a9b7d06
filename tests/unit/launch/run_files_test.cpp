#include "launch/run_files.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/fake_clock.h"
#include "support/faulty_fs.h"
#include "support/temp_dir.h"
#include "util/error.h"

namespace gputrain {
namespace {

namespace stdfs = std::filesystem;
using ::testing::HasSubstr;

class RunFilesTest : public ::testing::Test {
 protected:
  // Every path below the directory with its content.
  std::map<std::string, std::string> tree() const {
    std::map<std::string, std::string> files;
    for (const auto& entry : stdfs::recursive_directory_iterator(directory_.path())) {
      std::string text = "(directory)";
      if (entry.is_regular_file()) {
        std::ifstream in(entry.path());
        text.assign(std::istreambuf_iterator<char>(in), {});
      }
      files[stdfs::relative(entry.path(), directory_.path())] = text;
    }
    return files;
  }
  void earlier_launch() {
    std::ofstream(directory_ / "spec.yaml") << "old spec";
    std::ofstream(directory_ / "plan.json") << R"({"train":{"epochs":1,"gone":true},"launch":{"hosts":["a"]}})";
    std::ofstream(directory_ / "events.jsonl") << "{\"kind\":\"old\"}\n{\"torn";
    stdfs::create_directories(directory_ / "checkpoints/step-00000007");
  }

  testing::TempDir directory_;
  testing::FakeClock clock_;
  Json plan_ = {{"train", {{"epochs", 2}, {"list", {1, 2}}}}, {"launch", {{"hosts", {"a"}}}}};
};

TEST_F(RunFilesTest, WritesEverythingAndTheStartEvent) {
  RunFiles files(real_file_system(), directory_.path(), clock_);
  EXPECT_EQ(files.journal(), nullptr);
  EXPECT_EQ(files.changes("name: x"), Json::array());
  const std::string line = files.begin({"spec text", plan_, false}, {{"kind", "start"}}, 1);
  EXPECT_EQ(line, R"({"ts":"2026-11-30T04:05:06.000000Z","mono_s":0.000000,"attempt":1,"kind":"start"})");
  files.write_result({{"exit_code", 0}});
  const auto files_now = tree();
  EXPECT_EQ(files_now.size(), 4u);
  EXPECT_EQ(files_now.at("spec.yaml"), "spec text");
  EXPECT_EQ(Json::parse(files_now.at("plan.json")), plan_);
  EXPECT_EQ(files_now.at("events.jsonl"), line + "\n");
  EXPECT_EQ(files_now.at("result.json"), "{\n  \"exit_code\": 0\n}\n");
}

TEST_F(RunFilesTest, NamesWhatTheSpecAsksDifferently) {
  const auto spec_with = [](const std::string& lr) {
    return "name: x\nmodel: {name: mlp}\ntrain: {epochs: 1, global_batch: 4}\noptimizer: {lr: " + lr +
           "}\ndata: {train: {format: synthetic, samples: 9, shape: [784], num_classes: 10}}\n";
  };
  std::ofstream(directory_ / "spec.yaml") << spec_with("0.25");
  const RunFiles files(real_file_system(), directory_.path(), clock_);
  EXPECT_EQ(files.changes(spec_with("0.25")), Json::array());
  EXPECT_EQ(files.changes(spec_with("0.5")), Json::array({{{"key", "optimizer.lr"}, {"from", 0.25}, {"to", 0.5}}}));
}

TEST_F(RunFilesTest, MovesCheckpointsAsideWhenAskedAndThereAreAny) {
  earlier_launch();
  RunFiles files(real_file_system(), directory_.path(), clock_);
  EXPECT_THAT(files.begin({"s", plan_, true}, {{"kind", "start"}}, 2),
              HasSubstr(R"("checkpoints_moved_to":"checkpoints.old-1")"));
  EXPECT_TRUE(stdfs::exists(directory_ / "checkpoints.old-1/step-00000007"));
  EXPECT_EQ(Json::parse(files.begin({"s", plan_, true}, {{"kind", "start"}}, 3)).contains("checkpoints_moved_to"),
            false);
  stdfs::create_directories(directory_ / "checkpoints/step-00000009");
  files.begin({"s", plan_, false}, {{"kind", "start"}}, 4);
  EXPECT_TRUE(stdfs::exists(directory_ / "checkpoints/step-00000009"));
}

TEST_F(RunFilesTest, AStartThatCannotBeWrittenLeavesTheTreeAsItWas) {
  for (const bool relaunch : {false, true}) {
    if (relaunch) earlier_launch();
    const auto before = tree();
    int failures = 0;
    for (int k = 1;; ++k) {
      testing::FaultyFileSystem fs(directory_.path());
      fs.fail_at(k);
      RunFiles files(fs, directory_.path(), clock_);
      try {
        files.begin({"new spec", plan_, true}, {{"kind", "start"}}, 1);
        break;  // fewer than k operations
      } catch (const Error& error) {
        EXPECT_EQ(error.kind, ErrorKind::kOutput);
        EXPECT_EQ(files.journal(), nullptr);
        EXPECT_EQ(tree(), before) << "operation " << k;
        ++failures;
      }
    }
    EXPECT_GE(failures, 8);
    for (const auto& entry : stdfs::directory_iterator(directory_.path())) stdfs::remove_all(entry.path());
  }
}

TEST(PlanHash, IgnoresHowItIsLaunched) {
  const Json plan = {{"seed", 1}, {"launch", {{"grace", 1}}}};
  const Json other_launch = {{"seed", 1}, {"launch", {{"grace", 2}}}};
  const Json other_seed = {{"seed", 2}, {"launch", {{"grace", 1}}}};
  EXPECT_EQ(plan_hash(plan).size(), 16u);
  EXPECT_EQ(plan_hash(plan), plan_hash(other_launch));
  EXPECT_NE(plan_hash(plan), plan_hash(other_seed));
}

}  // namespace
}  // namespace gputrain

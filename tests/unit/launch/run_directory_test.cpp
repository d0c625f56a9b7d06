#include "launch/run_directory.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "launch/lock.h"
#include "support/temp_dir.h"

namespace gputrain {
namespace {

namespace stdfs = std::filesystem;

class RunDirectoryTest : public ::testing::Test {
 protected:
  RunDirectoryTest() { stdfs::create_directories(output_); }
  void write(const std::string& name, const std::string& text) { std::ofstream(output_ + "/" + name) << text; }
  std::string foreign() { return foreign_entry(real_file_system(), output_); }

  testing::TempDir directory_;
  std::string output_ = directory_ / "out";
};

TEST_F(RunDirectoryTest, AMissingOrEmptyDirectoryIsFree) {
  EXPECT_EQ(foreign(), "");
  stdfs::remove(output_);
  EXPECT_EQ(foreign(), "");
  std::ofstream(output_) << "a file: told when it is to be locked";
  EXPECT_EQ(foreign(), "");
}

TEST_F(RunDirectoryTest, WhatARunDoesNotReplaceMayStandThere) {
  for (const char* name : {"lost+found", "logs"}) stdfs::create_directories(output_ + "/" + name);
  write("slurm-17.out", "a scheduler's");
  write("spec.yml", "");
  EXPECT_EQ(foreign(), "");
}

TEST_F(RunDirectoryTest, AnEmptyPlaceForCheckpointsIsFree) {
  stdfs::create_directories(output_ + "/checkpoints");
  EXPECT_EQ(foreign(), "");
  stdfs::create_directories(output_ + "/checkpoints/lost+found");  // a file system of its own
  EXPECT_EQ(foreign(), "");
  stdfs::remove_all(output_ + "/checkpoints");
  stdfs::create_directories(directory_ / "disk");
  stdfs::create_directory_symlink(directory_ / "disk", output_ + "/checkpoints");
  EXPECT_EQ(foreign(), "");
  std::ofstream(directory_ / "disk/mine") << "";
  EXPECT_EQ(foreign(), "checkpoints");
}

TEST_F(RunDirectoryTest, SomebodysFilesAreForeign) {
  write("spec.yaml", "mine: 1");
  EXPECT_EQ(foreign(), "spec.yaml");
  write("events.jsonl", "{\"event\": 1}\n");
  write("plan.json", "{\"resource_changes\": []}");
  write("result.json", "{}");
  write("lock", "a lock of something else");
  stdfs::create_directories(output_ + "/checkpoints/epoch=3");
  EXPECT_EQ(foreign(), "checkpoints");
}

TEST_F(RunDirectoryTest, EachOfOurFilesMakesItARuns) {
  write("result.json", "of the user");
  EXPECT_EQ(foreign(), "result.json");
  write("events.jsonl", "{\"ts\":\"\",\"kind\":\"start\"}\n");
  EXPECT_EQ(foreign(), "");
  write("events.jsonl", "\xff torn");
  EXPECT_EQ(foreign(), "events.jsonl");
  write("plan.json", "{\"launch\": {}, \"train\": {}}");
  EXPECT_EQ(foreign(), "");
  stdfs::remove(output_ + "/plan.json");
  stdfs::create_directories(output_ + "/checkpoints/step-00000003");
  EXPECT_EQ(foreign(), "checkpoints") << "another program's: ours have a manifest";
  write("checkpoints/step-00000003/manifest.json", "{}");
  EXPECT_EQ(foreign(), "");
}

TEST_F(RunDirectoryTest, ALockAloneIsOursAlsoOfADeadStarter) {
  LockOptions options;
  options.output = output_;
  options.self.run_id = "mine";
  const auto lock = OutputLock::acquire(options);
  write("spec.yaml", "written before the start event");
  EXPECT_EQ(foreign(), "");
}

}  // namespace
}  // namespace gputrain

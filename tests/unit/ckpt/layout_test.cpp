#include "ckpt/layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/temp_dir.h"

namespace gputrain {
namespace {

using ::testing::ElementsAre;

TEST(Layout, StepNamesSortAsTheStepsDo) {
  EXPECT_EQ(step_name(1200), "step-00001200");
  EXPECT_EQ(step_name(0), "step-00000000");
  EXPECT_EQ(step_name(123456789012), "step-123456789012");
  for (const int64_t step : {int64_t{0}, int64_t{7}, int64_t{99999999}, int64_t{100000000}}) {
    EXPECT_EQ(step_of(step_name(step)), step);
  }
}

TEST(Layout, OnlyExactlyOurNamesAreOurs) {
  for (const char* name :
       {"step-1200", "step-000001200", "step-00001200-backup", "step--0000001", "step-", "step-0000120x", ".tmp-1200-1",
        "Step-00001200", "step-+0001200", "step-99999999999999999999", ""}) {
    EXPECT_FALSE(step_of(name)) << name;
  }
}

TEST(Layout, TemporaryReplacedAndTrashNames) {
  EXPECT_EQ(temporary_name(1200, 3), ".tmp-1200-3");
  EXPECT_TRUE(is_temporary(".tmp-1200-3"));
  for (const char* name : {".tmp-1200", ".tmp-a-3", ".tmp-1-2-3", ".tmp-", "tmp-1-2", ".tmp--1"}) {
    EXPECT_FALSE(is_temporary(name)) << name;
  }
  EXPECT_EQ(replaced_step_of(".replaced-step-00000007-2"), 7);
  for (const char* name :
       {".replaced-step-00000007", ".replaced-step-00000007-", ".replaced-step-7-1", "step-00000007-1"}) {
    EXPECT_FALSE(replaced_step_of(name)) << name;
  }
  EXPECT_EQ(trash_name("step-00000007"), ".trash-step-00000007");
  EXPECT_EQ(trash_name(".replaced-step-00000007-2"), ".trash-replaced-step-00000007-2");
  EXPECT_TRUE(is_trash(".trash-step-00000007"));
  EXPECT_TRUE(is_trash(".trash-replaced-step-00000007-2"));
  EXPECT_FALSE(is_trash(".trash-can"));
  EXPECT_FALSE(is_trash(".trash-"));
}

TEST(Layout, CandidatesAreNewestFirstAndAReplacedOneComesAfterItsSuccessor) {
  testing::TempDir dir;
  FileSystem& fs = real_file_system();
  for (const char* name : {"step-00000002", "step-00000010", ".replaced-step-00000010-1", ".replaced-step-00000010-2",
                           ".replaced-step-00000003-1", ".aside-step-00000050-1", ".tmp-60-1", ".trash-step-00000001",
                           "step-70", "notes"}) {
    fs.make_directories(dir / name);
  }
  std::vector<std::string> names;
  for (const Candidate& candidate : list_candidates(fs, dir.path())) {
    names.push_back(std::to_string(candidate.step) + " " + candidate.path.substr(dir.path().size() + 1));
  }
  EXPECT_THAT(names, ElementsAre("10 step-00000010", "10 .replaced-step-00000010-2", "10 .replaced-step-00000010-1",
                                 "3 .replaced-step-00000003-1", "2 step-00000002"));
  EXPECT_EQ(free_name(fs, dir.path(), kReplacedPrefix, 10), dir / ".replaced-step-00000010-3");
  EXPECT_TRUE(list_candidates(fs, dir / "none").empty());
}

}  // namespace
}  // namespace gputrain

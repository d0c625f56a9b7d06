#include "sys/oom.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "support/temp_dir.h"

namespace gputrain {
namespace {

using testing::TempDir;

class OomTest : public ::testing::Test {
 protected:
  void put(const std::string& path, const std::string& text) {
    const std::string whole = mount.path() + "/" + path;
    std::filesystem::create_directories(std::filesystem::path(whole).parent_path());
    std::ofstream(whole) << text;
  }
  TempDir mount;
};

constexpr char kEvents[] = "low 0\nhigh 0\nmax 9\noom 4\noom_kill 3\noom_group_kill 1\n";
constexpr char kControl[] = "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n";

TEST_F(OomTest, VersionTwo) {
  put("a/b/memory.events", kEvents);
  EXPECT_EQ(oom_kill_count(mount.path(), "0::/a/b\n"), 3);
}

TEST_F(OomTest, VersionOne) {
  put("memory/job/memory.oom_control", kControl);
  EXPECT_EQ(oom_kill_count(mount.path(), "5:cpu,cpuacct:/x\n4:memory:/job\n0::/\n"), 2);
  EXPECT_EQ(oom_kill_count(mount.path(), "4:hugetlb,memory:/job\n"), 2);
}

TEST_F(OomTest, ContainerWhosePathIsTheHosts) {
  put("memory/memory.oom_control", kControl);
  EXPECT_EQ(oom_kill_count(mount.path(), "4:memory:/docker/0123\n"), 2);
  put("memory.events", kEvents);
  EXPECT_EQ(oom_kill_count(mount.path(), "0::/docker/0123\n"), 3);
}

TEST_F(OomTest, NobodyCanTell) {
  EXPECT_EQ(oom_kill_count(mount.path(), "0::/\n4:memory:/\n"), std::nullopt);
  EXPECT_EQ(oom_kill_count(mount.path(), ""), std::nullopt);
  EXPECT_EQ(oom_kill_count(mount.path(), "garbage\n::\n"), std::nullopt);
  put("memory.events", "low 0\nhigh 0\n");
  EXPECT_EQ(oom_kill_count(mount.path(), "0::/\n"), std::nullopt) << "kernels before 4.13 do not count kills";
  put("memory.events", "oom_kill many\n");
  EXPECT_EQ(oom_kill_count(mount.path(), "0::/\n"), std::nullopt);
}

}  // namespace
}  // namespace gputrain

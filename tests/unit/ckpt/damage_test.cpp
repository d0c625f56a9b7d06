// A checkpoint damaged at any byte, or cut at any length, is never loaded.
#include <fstream>

#include <unistd.h>

#include "ckpt/checkpoint.h"
#include "ckpt/layout.h"
#include "support/temp_dir.h"
#include "unit/ckpt/ckpt_testing.h"

namespace gputrain {
namespace {

using testing::expect_tiny;
using testing::tiny_content;

// Two checkpoints in one directory, and the newer one alone in another.
class DamageTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    CheckpointStore store(fs_, testing::options_for(both_));
    store.save(tiny_content(10), std::nullopt);
    newest_ = store.save(tiny_content(20), 0.5).path;
    path_ = newest_ + "/" + GetParam();
    good_ = fs_.read(path_);
    fs_.make_directories(alone_);
    ASSERT_EQ(::symlink(newest_.c_str(), (alone_ + "/" + step_name(20)).c_str()), 0);
  }

  void expect_refused(const std::string& damaged, const std::string& what) {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << damaged;
    const ResumeChoice choice = load_for_resume(fs_, both_, "auto", "");
    ASSERT_TRUE(choice.checkpoint) << what;
    ASSERT_EQ(choice.checkpoint->step, 10) << what;
    ASSERT_EQ(choice.rejected.size(), 1U) << what;
    ASSERT_EQ(choice.rejected[0].path, newest_) << what;
    ASSERT_FALSE(choice.rejected[0].why.empty()) << what;
    try {
      load_for_resume(fs_, alone_, "auto", "");
      FAIL() << "loaded or started over: " << what;
    } catch (const Error& error) {
      ASSERT_EQ(error.kind, ErrorKind::kCheckpoint) << what;
      ASSERT_THAT(error.message, ::testing::HasSubstr(step_name(20))) << what;
    }
  }

  testing::TempDir dir_{testing::memory_directory()};
  FileSystem& fs_ = real_file_system();
  std::string both_ = dir_ / "both";
  std::string alone_ = dir_ / "alone";
  std::string newest_, path_, good_;
};

TEST_P(DamageTest, EveryFlippedByteIsRefused) {
  for (size_t i = 0; i < good_.size() && !HasFatalFailure(); ++i) {
    for (const int mask : {0x01, 0x20, 0xff}) {  // a digit or letter, its case, everything
      std::string damaged = good_;
      damaged[i] = static_cast<char>(damaged[i] ^ mask);
      expect_refused(damaged, "byte " + std::to_string(i) + " ^ " + std::to_string(mask));
    }
  }
}

TEST_P(DamageTest, EveryTruncationAndEveryAppendedByteIsRefused) {
  for (size_t length = 0; length < good_.size() && !HasFatalFailure(); ++length) {
    expect_refused(good_.substr(0, length), "cut at " + std::to_string(length));
  }
  for (const char extra : {'\0', ' ', '\n', 'x'}) expect_refused(good_ + extra, "one more byte");
}

TEST_P(DamageTest, UndamagedItLoads) {
  std::ofstream(path_, std::ios::binary | std::ios::trunc) << good_;
  for (const std::string& directory : {both_, alone_}) {
    const ResumeChoice choice = load_for_resume(fs_, directory, "auto", "");
    ASSERT_TRUE(choice.checkpoint);
    expect_tiny(*choice.checkpoint, 20);
  }
}

INSTANTIATE_TEST_SUITE_P(Files, DamageTest,
                         ::testing::Values("manifest.json", "model.safetensors", "optimizer.safetensors", "state.json"),
                         [](const auto& info) { return std::string(info.param, std::string(info.param).find('.')); });

}  // namespace
}  // namespace gputrain

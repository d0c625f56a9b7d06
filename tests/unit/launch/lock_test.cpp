#include "launch/lock.h"

#include <filesystem>
#include <fstream>
#include <utility>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launch/lock_file.h"
#include "support/fake_clock.h"
#include "support/temp_dir.h"
#include "sys/process.h"
#include "util/error.h"
#include "util/json.h"

namespace gputrain {
namespace {

namespace stdfs = std::filesystem;
using testing::FakeClock;
using ::testing::HasSubstr;
using testing::TempDir;

class LockTest : public ::testing::Test {
 protected:
  std::unique_ptr<OutputLock> acquire() {
    LockOptions options;
    options.output = output_;
    options.self.run_id = "mine";
    options.self.socket = "/tmp/s";
    options.notice = [this](const std::string& text) { notices_.push_back(text); };
    options.clock = &clock_;
    options.sleep = [this](std::chrono::milliseconds time) {
      clock_.advance(time);
      if (while_sleeping_) while_sleeping_();
    };
    return OutputLock::acquire(options);
  }
  void expect_refused(const std::string& part, const std::string& hint = "") {
    try {
      acquire();
      ADD_FAILURE() << "the lock was taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind, ErrorKind::kOutput);
      EXPECT_THAT(error.render(), HasSubstr(part));
      EXPECT_THAT(error.hint, HasSubstr(hint));
    }
  }
  // A lock file that nobody holds open.
  void leave(const LockInfo& info) {
    stdfs::create_directories(output_);
    create_lock_file(lock_path(output_), info, output_);
  }
  LockInfo on_this_host(int pid, uint64_t start_time) {
    return {"theirs", host_name(), boot_id(), pid, start_time, 4, 7, "/tmp/x"};
  }
  LockInfo elsewhere() { return {"theirs", "gpu-7", "another-boot", 4321, 99, 4, 7, ""}; }

  FakeClock clock_;
  TempDir directory_;
  std::string output_ = directory_ / "runs/a";
  std::vector<std::string> notices_;
  std::function<void()> while_sleeping_;
};

TEST_F(LockTest, NamesItsHolderAndIsRemovedWithTheDirectoriesItMade) {
  auto lock = acquire();
  const auto seen = read_lock(output_);
  ASSERT_TRUE(seen);
  EXPECT_EQ(seen->run_id, "mine");
  EXPECT_EQ(seen->host, host_name());
  EXPECT_EQ(seen->boot_id, boot_id());
  EXPECT_EQ(seen->pid, getpid());
  EXPECT_EQ(seen->start_time, process_start_time(getpid()));
  EXPECT_EQ(seen->attempt, 0);
  EXPECT_EQ(seen->counter, 0);
  EXPECT_EQ(seen->socket, "/tmp/s");
  EXPECT_EQ(std::distance(stdfs::directory_iterator(output_), {}), 1);  // nothing but the lock
  EXPECT_TRUE(lock->beat());
  EXPECT_TRUE(lock->set_attempt(12));
  EXPECT_EQ(read_lock(output_)->counter, 1);
  EXPECT_EQ(read_lock(output_)->attempt, 12);
  lock.reset();
  EXPECT_FALSE(stdfs::exists(directory_ / "runs"));
  EXPECT_TRUE(stdfs::exists(directory_.path()));
}

TEST_F(LockTest, KeepsDirectoriesOfARunThatBegan) {
  auto lock = acquire();
  lock->keep_directories();
  lock->release();
  EXPECT_TRUE(stdfs::is_empty(output_));
}

TEST_F(LockTest, LeavesDirectoriesThatOthersFilled) {
  auto lock = acquire();
  std::ofstream(output_ + "/file") << "x";
  lock->release();
  EXPECT_TRUE(stdfs::exists(output_ + "/file"));
  EXPECT_FALSE(read_lock(output_));
}

TEST_F(LockTest, ALiveHolderOnThisHostIsNamedAtOnce) {
  leave(on_this_host(getppid(), process_start_time(getppid())));
  expect_refused("in use by a live run: pid " + std::to_string(getppid()) + " on " + host_name() + " (run theirs)",
                 "gputrain stop " + output_);
  EXPECT_TRUE(notices_.empty());
  EXPECT_EQ(read_lock(output_)->run_id, "theirs");
}

TEST_F(LockTest, ADeadPidIsTakenOverWithANotice) {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  const auto start_time = process_start_time(child);
  leave(on_this_host(child, start_time));
  siginfo_t ended{};
  waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT);  // a zombie now: it has ended all the same
  const auto lock = acquire();
  waitpid(child, nullptr, 0);
  EXPECT_EQ(read_lock(output_)->run_id, "mine");
  ASSERT_TRUE(lock->predecessor());
  EXPECT_EQ(lock->predecessor()->attempt, 4);
  ASSERT_EQ(notices_.size(), 1u);
  EXPECT_THAT(notices_[0], HasSubstr("took over the lock of pid " + std::to_string(child) + " on " + host_name()));
  EXPECT_EQ(std::distance(stdfs::directory_iterator(output_), {}), 1);
}

TEST_F(LockTest, AReusedPidIsNotTheHolder) {
  leave(on_this_host(getppid(), process_start_time(getppid()) + 1));
  EXPECT_TRUE(acquire()->predecessor());
}

TEST_F(LockTest, AnotherHostsHolderIsWatchedFor20Seconds) {
  leave(elsewhere());
  const auto before = clock_.now();
  const auto lock = acquire();
  EXPECT_GE(clock_.now() - before, kLockSilence);
  EXPECT_LT(clock_.now() - before, kLockSilence + std::chrono::seconds(2));
  EXPECT_EQ(read_lock(output_)->run_id, "mine");
  ASSERT_EQ(notices_.size(), 2u);
  EXPECT_THAT(notices_[0], HasSubstr("pid 4321 on gpu-7 is watched"));
}

TEST_F(LockTest, AnotherHostsHolderThatMovesIsAlive) {
  LockInfo holder = elsewhere();
  leave(holder);
  const auto before = clock_.now();
  while_sleeping_ = [&] {
    if (clock_.now() - before < std::chrono::seconds(15)) return;
    ++holder.counter;
    leave(holder);
  };
  expect_refused("pid 4321 on gpu-7", "gputrain stop " + output_ + "` on gpu-7");
  EXPECT_LT(clock_.now() - before, std::chrono::seconds(16));
  EXPECT_EQ(read_lock(output_)->run_id, "theirs");
}

TEST_F(LockTest, AnotherHostsHolderThatLeavesMakesWay) {
  leave(elsewhere());
  while_sleeping_ = [&] { stdfs::remove(lock_path(output_)); };
  const auto before = clock_.now();
  const auto lock = acquire();
  EXPECT_LT(clock_.now() - before, std::chrono::seconds(2));
  EXPECT_FALSE(lock->predecessor());
}

TEST_F(LockTest, AFlockIsProofOfLifeWhateverTheTextSays) {
  leave(on_this_host(999999999, 1));
  const int fd = open(lock_path(output_).c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_EQ(flock(fd, LOCK_EX), 0);
  expect_refused("in use by a live run");
  close(fd);
  EXPECT_NO_THROW(acquire());
}

TEST_F(LockTest, OfManyStartersOneTakesADeadLock) {
  leave(on_this_host(999999999, 1));
  std::vector<pid_t> starters;
  int gate[2];
  ASSERT_EQ(pipe2(gate, O_CLOEXEC), 0);
  for (int i = 0; i < 8; ++i) {
    const pid_t pid = fork();
    if (pid == 0) {
      char byte;
      close(gate[1]);
      [[maybe_unused]] const auto got = read(gate[0], &byte, 1);  // all at once
      try {
        LockOptions options;
        options.output = output_;
        options.self.run_id = "racer";
        const auto lock = OutputLock::acquire(options);
        poll(nullptr, 0, 1500);
        const bool kept = lock->beat();
        lock->release();
        _exit(kept ? 1 : 2);
      } catch (const Error&) {
        _exit(0);
      }
    }
    starters.push_back(pid);
  }
  close(gate[0]);
  close(gate[1]);
  int winners = 0, robbed = 0;
  for (const pid_t pid : starters) {
    int status = 0;
    waitpid(pid, &status, 0);
    winners += WEXITSTATUS(status) == 1;
    robbed += WEXITSTATUS(status) == 2;
  }
  EXPECT_EQ(winners, 1);
  EXPECT_EQ(robbed, 0);
  EXPECT_FALSE(read_lock(output_));
}

TEST_F(LockTest, AClaimOfADeadStarterIsClearedAway) {
  leave(on_this_host(999999999, 1));
  create_lock_file(output_ + "/lock.takeover", on_this_host(999999998, 1), output_);
  EXPECT_TRUE(acquire()->predecessor());
  EXPECT_FALSE(stdfs::exists(output_ + "/lock.takeover"));
}

TEST_F(LockTest, AClaimThatNobodyKnowsIsWatchedAndClearedAway) {
  LockInfo elsewhere = on_this_host(7, 1);
  elsewhere.host = "gpu-9";
  for (const bool torn : {false, true}) {
    leave(on_this_host(999999999, 1));
    create_lock_file(output_ + "/lock.takeover", elsewhere, output_);
    if (torn) std::ofstream(output_ + "/lock.takeover", std::ios::trunc).flush();
    notices_.clear();
    EXPECT_TRUE(acquire()->predecessor());
    EXPECT_FALSE(stdfs::exists(output_ + "/lock.takeover"));
    ASSERT_FALSE(notices_.empty());
    EXPECT_THAT(notices_[0], HasSubstr("/lock.takeover is watched for 20 s"));
  }
}

TEST_F(LockTest, AHolderThatWasReplacedLearnsIt) {
  const auto lock = acquire();
  stdfs::remove(lock_path(output_));
  leave(elsewhere());
  EXPECT_FALSE(lock->beat());
  EXPECT_EQ(read_lock(output_)->run_id, "theirs");
  lock->release();
  EXPECT_EQ(read_lock(output_)->run_id, "theirs");
}

TEST_F(LockTest, APlainFileIsNoOutput) {
  stdfs::create_directories(directory_ / "runs");
  std::ofstream(output_) << "x";
  expect_refused(output_ + ": not a directory but a file", "another output directory");
  output_ += "/deeper";
  expect_refused("not a directory but a file: " + (directory_ / "runs/a"));
}

TEST_F(LockTest, AReadOnlyPlaceIsNoOutput) {
  output_ = "/proc/no/such/run";
  expect_refused("/proc/no/such/run: cannot create the output directory: No such file or directory");
  output_ = "/proc";
  expect_refused("/proc: cannot write into the output directory", "make it writable");
}

TEST_F(LockTest, ForeignTextIsNotTakenForALock) {
  stdfs::create_directories(output_);
  for (const std::string text : {"hello", "{}", R"({"run_id": 7})"}) {
    std::ofstream(lock_path(output_), std::ios::trunc) << text;
    expect_refused("this is not a gputrain lock", "remove the file");
  }
}

TEST_F(LockTest, WhatACrashLeavesOfALockIsWatchedAndTakenOver) {
  stdfs::create_directories(output_);
  for (const std::string& text : {std::string(), std::string(1024, '\0')}) {
    notices_.clear();
    std::ofstream(lock_path(output_), std::ios::trunc) << text;
    const auto lock = acquire();
    EXPECT_TRUE(lock->beat());
    EXPECT_THAT(notices_, ElementsAre(HasSubstr("as after a power cut) is watched for 20 s"),
                                      HasSubstr("took over the lock of nobody known")));
  }
}

TEST_F(LockTest, ACopyOfALiveLockHoldsNothing) {
  const auto original = acquire();
  const std::string original_output = std::exchange(output_, directory_ / "runs/copy");
  stdfs::copy(original_output, output_, stdfs::copy_options::recursive);
  EXPECT_EQ(judge_lock(original_output, *read_lock(original_output)), Liveness::kAlive);
  EXPECT_EQ(judge_lock(output_, *read_lock(output_)), Liveness::kDead);
  const auto lock = acquire();
  EXPECT_TRUE(lock->beat());
  EXPECT_TRUE(original->beat());
  ASSERT_EQ(notices_.size(), 1u);
  EXPECT_THAT(notices_[0],
              HasSubstr("replaced a copied lock of pid " + std::to_string(getpid()) + " on " + host_name()));
}

TEST_F(LockTest, WhoWaitsLeavesNothingBehindWhenItIsKilled) {
  leave(elsewhere());
  size_t looks = 0;
  while_sleeping_ = [&] {
    ++looks;
    EXPECT_EQ(std::distance(stdfs::directory_iterator(output_), {}), 1) << "only the lock that is watched";
  };
  const auto lock = acquire();
  EXPECT_GT(looks, 10u);
}

TEST_F(LockTest, WhatAKilledStarterPreparedIsClearedAway) {
  stdfs::create_directories(output_);
  const LockInfo dead = on_this_host(999999999, 1), alive = on_this_host(getppid(), process_start_time(getppid()));
  for (const auto& starter : {dead, alive, elsewhere()}) {
    create_lock_file(pending_lock_path(output_, starter), starter, output_);
  }
  std::ofstream(output_ + "/.lock-of-somebody") << "";
  const auto lock = acquire();
  EXPECT_FALSE(stdfs::exists(pending_lock_path(output_, dead)));
  EXPECT_TRUE(stdfs::exists(pending_lock_path(output_, alive)));
  EXPECT_TRUE(stdfs::exists(pending_lock_path(output_, elsewhere())));
  EXPECT_TRUE(stdfs::exists(output_ + "/.lock-of-somebody"));
}

TEST_F(LockTest, WhatIsNoFileIsNoLock) {
  stdfs::create_directories(output_);
  stdfs::create_symlink("/no/such/file", lock_path(output_));
  expect_refused(lock_path(output_) + ": a symbolic link, not a gputrain lock", "remove it");
  stdfs::remove(lock_path(output_));
  ASSERT_EQ(mkfifo(lock_path(output_).c_str(), 0600), 0);
  expect_refused("it is a pipe, not a file");
  stdfs::remove(lock_path(output_));
  stdfs::create_directory(lock_path(output_));
  expect_refused("cannot read the lock: Is a directory");
}

}  // namespace
}  // namespace gputrain

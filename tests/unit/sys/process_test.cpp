#include "sys/process.h"

#include <algorithm>
#include <csignal>
#include <fstream>
#include <sstream>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/temp_dir.h"
#include "sys/fd.h"

namespace gputrain {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using testing::TempDir;

constexpr int kTimeoutMs = 8000;

ExitStatus wait_for(const Child& child) {
  pollfd item{child.pidfd, POLLIN, 0};
  if (poll(&item, 1, kTimeoutMs) != 1) {
    ADD_FAILURE() << "process " << child.pid << " did not end";
    kill(child.pid, SIGKILL);
  }
  const ExitStatus status = reap(child);
  close(child.pidfd);
  return status;
}

// Runs a program to its end and returns what it printed.
std::string output_of(SpawnOptions options, ExitStatus* status = nullptr) {
  int ends[2];
  EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
  UniqueFd read_end(ends[0]), write_end(ends[1]);
  options.stdout_fd = write_end.get();
  const Child child = spawn(options);
  write_end.reset();
  std::string text;
  char chunk[4096];
  for (ssize_t length; (length = read(read_end.get(), chunk, sizeof chunk)) > 0;) text.append(chunk, length);
  const ExitStatus ended = wait_for(child);
  if (status) *status = ended;
  return text;
}

SpawnOptions shell(const std::string& script) {
  SpawnOptions options;
  options.argv = {"/bin/sh", "-c", script};
  return options;
}

bool eventually(const std::function<bool()>& condition) {
  for (int i = 0; i < kTimeoutMs / 10; ++i) {
    if (condition()) return true;
    poll(nullptr, 0, 10);
  }
  return false;
}

class ProcessTest : public ::testing::Test {
 protected:
  ProcessTest() { alarm(30); }
  ~ProcessTest() override { alarm(0); }
};

TEST_F(ProcessTest, ExitCodesAndSignalsAreTold) {
  EXPECT_EQ(wait_for(spawn(shell("exit 7"))).code, 7);
  const ExitStatus killed = wait_for(spawn(shell("kill -SEGV $$")));
  EXPECT_EQ(killed.signal, SIGSEGV);
  EXPECT_EQ(killed.code, 0);
  EXPECT_GT(killed.max_rss_kib, 0);
}

TEST_F(ProcessTest, HasEndedDoesNotReap) {
  const Child child = spawn(shell("exit 3"));
  ASSERT_TRUE(eventually([&] { return has_ended(child); }));
  EXPECT_TRUE(has_ended(child));
  EXPECT_EQ(wait_for(child).code, 3);
}

TEST_F(ProcessTest, ReapingWhatIsNoChildIsAnError) {
  EXPECT_THROW(reap({1, -1}), Error);
}

SpawnError spawn_error(const SpawnOptions& options) {
  try {
    wait_for(spawn(options));
  } catch (const SpawnError& error) {
    return error;
  }
  ADD_FAILURE() << "no error";
  return {0, "", ""};
}

TEST_F(ProcessTest, MissingProgramIsNotFound) {
  SpawnOptions options;
  options.argv = {"/nonexistent/program"};
  const auto error = spawn_error(options);
  EXPECT_EQ(error.kind, ErrorKind::kNotFound);
  EXPECT_EQ(error.error_number, ENOENT);
  EXPECT_EQ(error.message, "cannot execute /nonexistent/program: No such file or directory");
  options.argv = {"no-such-program-in-path"};
  EXPECT_EQ(spawn_error(options).kind, ErrorKind::kNotFound);
}

TEST_F(ProcessTest, WhatIsNoProgramCannotBeExecuted) {
  TempDir directory;
  SpawnOptions options;
  options.argv = {directory.path()};
  EXPECT_EQ(spawn_error(options).error_number, EACCES);
  EXPECT_EQ(spawn_error(options).kind, ErrorKind::kCannotExecute);

  // No shell is tried on a text without "#!".
  const std::string text = directory.path() + "/text";
  std::ofstream(text) << "exit 0\n";
  chmod(text.c_str(), 0755);
  options.argv = {text};
  EXPECT_EQ(spawn_error(options).error_number, ENOEXEC);
}

TEST_F(ProcessTest, MissingWorkingDirectoryIsToldAsSuch) {
  SpawnOptions options = shell("true");
  options.working_directory = "/nonexistent";
  EXPECT_THAT(spawn_error(options).message, HasSubstr("(chdir)"));
  options.working_directory = "/usr";
  options.argv = {"/bin/pwd"};
  EXPECT_EQ(output_of(options), "/usr\n");
}

TEST_F(ProcessTest, FailedSpawnLeavesNoZombie) {
  SpawnOptions options;
  options.argv = {"/nonexistent/program"};
  spawn_error(options);
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

TEST_F(ProcessTest, ProgramIsLookedUpInThePathItWillHave) {
  TempDir directory;
  const std::string tool = directory.path() + "/gp-test-tool";
  std::ofstream(tool) << "#!/bin/sh\necho \"$0 $1|$GP_TEST\"\n";
  chmod(tool.c_str(), 0755);
  SpawnOptions options;
  options.argv = {"gp-test-tool", "a b'\"$c\n"};
  options.env = {{"PATH", "/nonexistent:" + directory.path() + ":/usr/bin:/bin"}, {"GP_TEST", "x=y"}};
  EXPECT_EQ(output_of(options), tool + " a b'\"$c\n|x=y\n") << "arguments and values pass unchanged";
}

TEST_F(ProcessTest, EnvironmentReplacesAndAdds) {
  setenv("GP_TEST_OLD", "old", 1);
  setenv("GP_TEST_KEPT", "kept", 1);
  SpawnOptions options = shell("env | grep ^GP_TEST | sort");
  options.env = {{"GP_TEST_OLD", "new"}, {"GP_TEST_NEW", "1"}};
  EXPECT_EQ(output_of(options), "GP_TEST_KEPT=kept\nGP_TEST_NEW=1\nGP_TEST_OLD=new\n");
}

TEST_F(ProcessTest, DefaultsGiveWayToWhatIsSet) {
  setenv("GP_TEST_OLD", "old", 1);
  SpawnOptions options = shell("env | grep ^GP_TEST_[ONA] | sort");
  options.env = {{"GP_TEST_NEW", "1"}};
  options.default_env = {{"GP_TEST_OLD", "default"}, {"GP_TEST_NEW", "default"}, {"GP_TEST_ABSENT", "default"}};
  EXPECT_EQ(output_of(options), "GP_TEST_ABSENT=default\nGP_TEST_NEW=1\nGP_TEST_OLD=old\n");
}

TEST_F(ProcessTest, OnlyNamedDescriptorsAreInherited) {
  UniqueFd leaky(open("/dev/zero", O_RDONLY));  // without CLOEXEC
  UniqueFd page(memfd_create("page", MFD_CLOEXEC));
  SpawnOptions options;
  options.argv = {"/bin/ls", "/proc/self/fd"};
  options.fds = {{page.get(), 7}};
  // 3 is ls's own descriptor of the directory.
  EXPECT_EQ(output_of(options), "0\n1\n2\n3\n7\n");
}

// 3 -> 4 and 4 -> 3: a naive sequence of dup2 would lose one.
TEST_F(ProcessTest, DescriptorsMaySwapNumbers) {
  TempDir directory;
  std::ofstream(directory.path() + "/a") << "A";
  std::ofstream(directory.path() + "/b") << "B";
  const int a = open((directory.path() + "/a").c_str(), O_RDONLY),
            b = open((directory.path() + "/b").c_str(), O_RDONLY);
  SpawnOptions options = shell("cat <&" + std::to_string(b) + "; cat <&" + std::to_string(a));
  options.fds = {{a, b}, {b, a}};
  EXPECT_EQ(output_of(options), "AB");
  close(a);
  close(b);
}

TEST_F(ProcessTest, StdinIsEmptyByDefault) {
  EXPECT_EQ(output_of(shell("wc -c; readlink /proc/self/fd/0")), "0\n/dev/null\n");
}

std::string status_line(const std::string& name, const SpawnOptions& base) {
  SpawnOptions options = base;
  options.argv = {"/bin/grep", "^" + name + ":", "/proc/self/status"};
  std::istringstream fields(output_of(options));
  std::string label, value;
  fields >> label >> value;
  return value;
}

TEST_F(ProcessTest, SignalsStartBlockedAsAskedAndOtherwiseDefault) {
  std::signal(SIGUSR1, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
  sigset_t ours;
  sigemptyset(&ours);
  sigaddset(&ours, SIGUSR2);
  sigprocmask(SIG_BLOCK, &ours, nullptr);
  SpawnOptions options;
  options.blocked_signals = {SIGTERM};
  EXPECT_EQ(status_line("SigBlk", options), "0000000000004000") << "SIGTERM (15) alone";
  EXPECT_EQ(status_line("SigIgn", options), "0000000000000000");
  options.kept_ignored = {SIGUSR1, SIGHUP};  // of these only SIGUSR1 (10) is ignored here
  EXPECT_EQ(status_line("SigIgn", options), "0000000000000200");
  options.blocked_signals = {};
  EXPECT_EQ(status_line("SigBlk", options), "0000000000000000");
  sigprocmask(SIG_UNBLOCK, &ours, nullptr);
  std::signal(SIGUSR1, SIG_DFL);
}

TEST_F(ProcessTest, BlockedSignalWaitsForItsHandler) {
  SpawnOptions options = shell("exec sleep 20");
  options.blocked_signals = {SIGTERM};
  const Child child = spawn(options);
  kill(child.pid, SIGTERM);
  poll(nullptr, 0, 50);
  EXPECT_FALSE(has_ended(child));
  kill(child.pid, SIGKILL);
  EXPECT_EQ(wait_for(child).signal, SIGKILL);
}

TEST_F(ProcessTest, GroupIsKilledWhole) {
  TempDir directory;
  const std::string file = directory.path() + "/pid";
  const Child child = spawn(shell("sleep 50 & echo $! > " + file + ".tmp; mv " + file + ".tmp " + file + "; wait"));
  ASSERT_TRUE(eventually([&] { return std::ifstream(file).good(); }));
  pid_t grandchild = 0;
  std::ifstream(file) >> grandchild;
  EXPECT_EQ(getpgid(grandchild), child.pid);
  EXPECT_NE(getpgid(0), child.pid);
  signal_group(child.pid, SIGKILL);
  EXPECT_EQ(wait_for(child).signal, SIGKILL);
  EXPECT_TRUE(eventually([&] {
    return kill(grandchild, 0) != 0 || process_start_time(grandchild) == 0 || [&] {
      std::ifstream stat("/proc/" + std::to_string(grandchild) + "/stat");
      std::string line;
      std::getline(stat, line);
      return line.find(") Z ") != std::string::npos;  // PID 1 here may reap slowly
    }();
  }));
  signal_group(child.pid, SIGKILL);  // gone: no error
}

TEST_F(ProcessTest, OwnGroupAndEverybodyAreRefusedAsTargets) {
  EXPECT_DEATH(signal_group(0, SIGKILL), "is not a child's");
  EXPECT_DEATH(signal_group(1, SIGKILL), "is not a child's");
  EXPECT_DEATH(signal_group(-1, SIGKILL), "is not a child's");
}

// A parent that is killed takes its child with it. The child's end is seen by the pipe that it alone holds.
TEST_F(ProcessTest, ChildDiesWithItsKilledParent) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  UniqueFd read_end(ends[0]), write_end(ends[1]);
  const pid_t parent = fork();
  if (parent == 0) {
    SpawnOptions options = shell("echo up >&5; exec sleep 60");
    options.fds = {{write_end.get(), 5}};
    spawn(options);
    write_end.reset();
    while (true) pause();
  }
  write_end.reset();
  char text[3];
  ASSERT_EQ(read(read_end.get(), text, 3), 3);
  kill(parent, SIGKILL);
  pollfd item{read_end.get(), POLLIN, 0};
  ASSERT_EQ(poll(&item, 1, 3000), 1) << "the child survived its parent";
  EXPECT_EQ(read(read_end.get(), text, 3), 0);
  waitpid(parent, nullptr, 0);
}

TEST_F(ProcessTest, WithoutContainmentAChildSurvives) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  UniqueFd read_end(ends[0]), write_end(ends[1]);
  const pid_t parent = fork();
  if (parent == 0) {
    SpawnOptions options = shell("echo $$ >&5; exec sleep 60");
    options.fds = {{write_end.get(), 5}};
    options.die_with_parent = false;
    spawn(options);
    write_end.reset();
    while (true) pause();
  }
  write_end.reset();
  char text[32] = {};
  ASSERT_GT(read(read_end.get(), text, sizeof text - 1), 1);
  kill(parent, SIGKILL);
  waitpid(parent, nullptr, 0);
  pollfd item{read_end.get(), POLLIN, 0};
  EXPECT_EQ(poll(&item, 1, 200), 0) << "it has died, so the test above proves nothing";
  kill(std::atoi(text), SIGKILL);
}

TEST_F(ProcessTest, SubreaperSeesAndReapsOrphansButKeepsItsOwn) {
  // In a process of its own: a subreaper stays one.
  const pid_t tester = fork();
  if (tester == 0) {
    become_subreaper();
    // The middle shell ends at once; its sleeper is in a session of its own.
    const Child middle = spawn(shell("setsid sleep 60 & exit 0"));
    const Child own = spawn(shell("exit 5"));
    const auto failed = [](int where) { _exit(where); };
    if (!eventually([&] { return has_ended(middle) && has_ended(own); })) failed(1);
    reap(middle);
    // The sleeper has had time neither to exec nor not to: it is there in any case.
    if (!eventually([&] { return descendants().size() == 1; })) failed(2);
    const pid_t orphan = descendants()[0];
    if (orphan == own.pid) failed(3);  // a zombie is not alive
    kill(orphan, SIGKILL);
    if (!eventually([&] { return descendants().empty(); })) failed(4);
    reap_orphans({own.pid});
    if (reap(own).code != 5) failed(5);
    if (!eventually([&] {
          reap_orphans({});
          return waitpid(-1, nullptr, WNOHANG) == -1 && errno == ECHILD;
        }))
      failed(6);
    _exit(0);
  }
  int status = 0;
  waitpid(tester, &status, 0);
  EXPECT_EQ(status, 0) << "failed at " << WEXITSTATUS(status);
}

TEST_F(ProcessTest, DescendantsIncludeGrandchildren) {
  const Child child = spawn(shell("sleep 50 & wait"));
  EXPECT_TRUE(eventually([] { return descendants().size() == 2; }));
  EXPECT_THAT(descendants(), Contains(child.pid));
  signal_group(child.pid, SIGKILL);
  wait_for(child);
}

TEST_F(ProcessTest, StartTimeNamesAProcess) {
  EXPECT_GT(process_start_time(getpid()), process_start_time(1) - 1);
  EXPECT_EQ(process_start_time(getpid()), process_start_time(getpid()));
  const Child child = spawn(shell("exit 0"));
  wait_for(child);
  EXPECT_EQ(process_start_time(child.pid), 0u);
}

TEST_F(ProcessTest, StatIsReadBehindAnOddProgramName) {
  TempDir directory;
  const std::string odd = directory.path() + "/a) Z 1 (b";
  ASSERT_EQ(symlink("/bin/sleep", odd.c_str()), 0);
  SpawnOptions options;
  options.argv = {odd, "60"};
  const Child child = spawn(options);
  EXPECT_THAT(descendants(), Contains(child.pid));
  EXPECT_GT(process_start_time(child.pid), process_start_time(1));
  kill(child.pid, SIGKILL);
  wait_for(child);
}

TEST_F(ProcessTest, FactsAboutThisMachine) {
  EXPECT_EQ(executable_directory(), GPUTRAIN_BINARY_DIR);
  EXPECT_EQ(boot_id().size(), 36u);
  EXPECT_FALSE(host_name().empty());
  cpu_set_t set;
  ASSERT_EQ(sched_getaffinity(0, sizeof set, &set), 0);
  EXPECT_EQ(cpu_count(), CPU_COUNT(&set));
  // The mask counts, not the machine.
  cpu_set_t one;
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set) && CPU_COUNT(&one) == 0) CPU_SET(cpu, &one);
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(cpu_count(), 1);
  sched_setaffinity(0, sizeof set, &set);
}

}  // namespace
}  // namespace gputrain

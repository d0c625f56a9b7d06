// spawn() in a process that may hardly open a file.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sys/process.h"

namespace gputrain {
namespace {

// Whether a process that may open `limit` files tells what it lacks, or starts the program. In a child: a limit cannot
// be raised again.
int spawn_with_files(rlim_t limit) {
  const pid_t child = fork();
  if (child == 0) {
    const rlimit files{limit, limit};
    setrlimit(RLIMIT_NOFILE, &files);
    try {
      SpawnOptions options;
      options.argv = {"/bin/true"};
      options.fds = {{2, 20}};
      _exit(reap(spawn(options)).code == 0 ? 1 : 2);
    } catch (const Error& error) {
      const bool told = error.kind == ErrorKind::kEnvironment && error.hint.find("ulimit -n") != std::string::npos;
      _exit(told ? 3 : 4);
    }
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WEXITSTATUS(status);
}

// The remedy told when all of 2000 files are open.
std::string remedy_of_2000() {
  const rlimit files{2000, 2000};
  setrlimit(RLIMIT_NOFILE, &files);
  while (dup(2) >= 0) {
  }
  try {
    SpawnOptions options;
    options.argv = {"/bin/true"};
    spawn(options);
  } catch (const Error& error) {
    return error.hint;
  }
  return "";
}

TEST(Spawn, TheRemedyIsAboveTheLimitThatWasReached) {
  const pid_t child = fork();
  if (child == 0) _exit(remedy_of_2000() == "raise the limit of open files: ulimit -n 4000" ? 0 : 1);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(Spawn, AMachineWithoutDescriptorsIsNotTheProgramsFault) {
  int told = 0;
  for (rlim_t limit = 0; limit < 40; ++limit) {
    const int outcome = spawn_with_files(limit);
    EXPECT_TRUE(outcome == 1 || outcome == 3) << "outcome " << outcome << " with " << limit << " files";
    told += outcome == 3;
  }
  EXPECT_GT(told, 5);
}

}  // namespace
}  // namespace gputrain

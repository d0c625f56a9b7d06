#include "sys/files.h"

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "support/temp_dir.h"
#include "sys/sockets.h"
#include "util/error.h"

namespace gputrain {
namespace {

using ::testing::HasSubstr;

class FilesTest : public ::testing::Test {
 protected:
  std::string refusal(const std::string& path, int flags) {
    try {
      open_file(path, flags);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind, ErrorKind::kOutput);
      return error.message;
    }
    return "nothing was thrown";
  }

  testing::TempDir dir_;
};

TEST_F(FilesTest, WhatIsNoFileIsNamedAndNeverWaitedFor) {
  const std::string pipe = dir_ / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const std::string expected = "cannot open " + pipe + ": it is a pipe, not a file";
  for (const int flags : {O_RDONLY, O_WRONLY, O_RDWR}) EXPECT_EQ(refusal(pipe, flags), expected);
  const UniqueFd listener = unix_listen(dir_ / "socket");
  EXPECT_THAT(refusal(dir_ / "socket", O_RDONLY), HasSubstr("it is a socket, not a file"));
  EXPECT_THAT(refusal("/dev/zero", O_RDONLY), HasSubstr("it is a device, not a file"));
  EXPECT_TRUE(open_file("/dev/full", O_WRONLY));
}

TEST_F(FilesTest, ErrnoSaysWhyAFileDoesNotOpen) {
  EXPECT_FALSE(open_file(dir_ / "none", O_RDONLY));
  EXPECT_EQ(errno, ENOENT);
  EXPECT_FALSE(open_file(dir_.path(), O_RDONLY));
  EXPECT_EQ(errno, EISDIR);
  EXPECT_TRUE(open_file(dir_.path(), O_RDONLY | O_DIRECTORY));
  const UniqueFd made = open_file(dir_ / "made", O_WRONLY | O_CREAT, 0600);
  EXPECT_TRUE(made);
  EXPECT_NE(fcntl(made.get(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST_F(FilesTest, WritesAllOrSaysHowMuch) {
  const UniqueFd file = open_file(dir_ / "f", O_WRONLY | O_CREAT);
  EXPECT_EQ(write_all(file.get(), "abc"), 3u);
  EXPECT_EQ(write_all(file.get(), ""), 0u);
  EXPECT_EQ(std::filesystem::file_size(dir_ / "f"), 3u);
  auto [end, other] = unix_socket_pair();
  set_nonblocking(end.get());
  const std::string much(8 << 20, 'x');
  const size_t written = write_all(end.get(), much);
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_GT(written, 0u);
  EXPECT_LT(written, much.size());
  EXPECT_EQ(write_all(-1, "x"), 0u);
  EXPECT_EQ(errno, EBADF);
}

TEST_F(FilesTest, ACopyIsAnotherFile) {
  std::ofstream(dir_ / "a") << "x";
  std::filesystem::create_hard_link(dir_ / "a", dir_ / "same");
  std::filesystem::copy_file(dir_ / "a", dir_ / "copy");
  std::filesystem::create_symlink(dir_ / "a", dir_ / "link");
  const UniqueFd file = open_file(dir_ / "a", O_RDONLY);
  EXPECT_EQ(file_id(file.get()), file_id(dir_ / "a"));
  EXPECT_EQ(file_id(dir_ / "same"), file_id(dir_ / "a"));
  EXPECT_NE(file_id(dir_ / "copy"), file_id(dir_ / "a"));
  EXPECT_NE(file_id(dir_ / "link"), file_id(dir_ / "a"));
  EXPECT_EQ(file_id(dir_ / "none"), FileId());
}

}  // namespace
}  // namespace gputrain

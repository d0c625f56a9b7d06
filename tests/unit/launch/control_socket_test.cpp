#include "launch/control_socket.h"

#include <filesystem>
#include <fstream>
#include <thread>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/temp_dir.h"
#include "sys/files.h"
#include "sys/sockets.h"
#include "util/error.h"

namespace gputrain {
namespace {

using ::testing::HasSubstr;
using testing::TempDir;

class ControlSocketTest : public ::testing::Test {
 protected:
  ControlSocketTest()
      : socket_(std::make_unique<ControlSocket>(loop_, path_, [](const Json& request) {
          if (request["request"] == "throw") throw std::runtime_error("no such thing");
          return Json{{"echo", request}};
        })) {
    loop_.after(std::chrono::seconds(20), [this] { loop_.stop(); });
    std::pair<UniqueFd, UniqueFd> pair = unix_socket_pair();
    stop_ = std::move(pair.first);
    stopped_ = std::move(pair.second);
    loop_.watch_readable(stopped_.get(), [this] { loop_.stop(); });
    server_ = std::thread([this] { loop_.run(); });
  }
  ~ControlSocketTest() override {
    stop_.reset();
    server_.join();
    loop_.unwatch_readable(stopped_.get());
    socket_.reset();
    EXPECT_FALSE(std::filesystem::exists(path_));
  }
  // What comes back for raw bytes.
  std::string exchange(const std::string& bytes) {
    const UniqueFd fd = unix_connect(path_);
    EXPECT_EQ(write(fd.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
    std::string reply;
    char buffer[4096];
    pollfd ready{fd.get(), POLLIN, 0};
    while (poll(&ready, 1, 5000) > 0) {
      const ssize_t got = read(fd.get(), buffer, sizeof buffer);
      if (got <= 0) break;
      reply.append(buffer, static_cast<size_t>(got));
    }
    return reply;
  }

  TempDir directory_;
  std::string path_ = control_socket_path(directory_ / "ctl", "/runs/a");
  EventLoop loop_;
  std::unique_ptr<ControlSocket> socket_;
  UniqueFd stop_, stopped_;
  std::thread server_;
};

TEST_F(ControlSocketTest, AnswersOneRequestAConnection) {
  const Json request = {{"request", "status"}, {"text", "ä\n"}};
  EXPECT_EQ(control_request(path_, request), Json({{"echo", request}}));
  EXPECT_EQ(control_request(path_, {{"request", "stop"}})["echo"]["request"], "stop");
}

TEST_F(ControlSocketTest, TheDirectoryIsPrivate) {
  struct stat info {};
  ASSERT_EQ(stat((directory_ / "ctl").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
}

TEST_F(ControlSocketTest, AHandlersExceptionIsAnAnswer) {
  EXPECT_EQ(control_request(path_, {{"request", "throw"}}), Json({{"error", "no such thing"}}));
}

TEST_F(ControlSocketTest, ForeignBytesAreAnswered) {
  EXPECT_EQ(exchange("hello\n"), "{\"error\":\"not a request: hello\"}\n");
  EXPECT_EQ(exchange("[1]\n"), "{\"error\":\"not a request: [1]\"}\n");
  EXPECT_EQ(exchange("{}\n"), "{\"error\":\"not a request: {}\"}\n");
  EXPECT_THAT(exchange(std::string(3000, 'x') + std::string(3000, 'y')), HasSubstr("too long"));
  EXPECT_THAT(exchange("\xff\xfe\n"), HasSubstr("not a request"));
}

TEST_F(ControlSocketTest, AClientThatSaysNothingDisturbsNobody) {
  const UniqueFd silent = unix_connect(path_);
  { const UniqueFd gone = unix_connect(path_); }
  EXPECT_TRUE(control_request(path_, {{"request", "status"}}).contains("echo"));
}

TEST(ControlSocketPath, IsShortAndTheSameForTheSameRun) {
  const std::string deep = "/" + std::string(300, 'x');
  EXPECT_EQ(control_socket_path("/tmp/g", deep), control_socket_path("/tmp/g", deep));
  EXPECT_NE(control_socket_path("/tmp/g", deep), control_socket_path("/tmp/g", deep + "y"));
  EXPECT_EQ(control_socket_path("/tmp/g", deep).size(), 6 + 1 + 8 + 1 + 16 + 5u);
}

TEST(ControlSocketErrors, ALongDirectoryIsRefusedWithARemedy) {
  EventLoop loop;
  try {
    const ControlSocket socket(loop, control_socket_path("/tmp/" + std::string(100, 'x'), "/a"), nullptr);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind, ErrorKind::kEnvironment);
    EXPECT_THAT(error.message, HasSubstr("longer than 107 bytes"));
    EXPECT_THAT(error.hint, HasSubstr("short directory"));
  }
}

TEST(ControlSocketErrors, NobodyListening) {
  TempDir directory;
  try {
    control_request(directory / "none.sock", {{"request", "status"}});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind, ErrorKind::kEnvironment);
  }
}

TEST(ControlSocketErrors, ADeadRunsSocketIsReplaced) {
  TempDir directory;
  EventLoop loop;
  const std::string path = directory / "a.sock";
  const UniqueFd dead = unix_listen(path);
  EXPECT_NO_THROW(ControlSocket(loop, path, nullptr));
}

TEST(ControlSocketErrors, SocketsOfOtherDeadRunsAreRemoved) {
  TempDir directory;
  EventLoop loop;
  const auto path_of = [&](const std::string& run) { return control_socket_path(directory.path(), run); };
  const std::string dead = path_of("dead"), young = path_of("young"), live = path_of("live"), file = path_of("file");
  const std::string other = dead + "et", elsewhere = directory / "01234567-0123456789abcdef.sock";
  for (const auto& path : {dead, young, other, elsewhere}) {
    const UniqueFd closed = unix_listen(path);
  }
  const UniqueFd listener = unix_listen(live);
  std::ofstream(file) << "";
  const timespec old[2] = {{1000000000, 0}, {1000000000, 0}};
  for (const auto& path : {dead, other, elsewhere, live, file}) ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), old, 0), 0);
  const ControlSocket socket(loop, path_of("mine"), nullptr);
  EXPECT_FALSE(std::filesystem::exists(dead));
  // `elsewhere`: on a shared directory another host's live socket refuses connections just as a dead one.
  for (const auto& path : {young, other, elsewhere, live, file, socket.path()})
    EXPECT_TRUE(std::filesystem::exists(path)) << path;
}

TEST(ControlSocketErrors, OneLaunchAtATimeSweepsAndListens) {
  TempDir directory;
  EventLoop loop;
  const std::string path = control_socket_path(directory.path(), "mine");
  std::unique_ptr<ControlSocket> socket;
  UniqueFd sweeping = lock_directory(directory.path());
  ASSERT_TRUE(sweeping);
  std::thread starter([&] { socket = std::make_unique<ControlSocket>(loop, path, nullptr); });
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_FALSE(std::filesystem::exists(path)) << "bound while another launch may take it for a dead run's";
  sweeping.reset();
  starter.join();
  EXPECT_TRUE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace gputrain

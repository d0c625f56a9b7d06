#include "sys/sockets.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "support/temp_dir.h"
#include "util/error.h"

namespace gputrain {
namespace {

using ::testing::HasSubstr;
using testing::TempDir;

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind, ErrorKind::kEnvironment);
    return error.render();
  }
  return "no error";
}

bool closes_on_exec(const UniqueFd& fd) {
  return (fcntl(fd.get(), F_GETFD) & FD_CLOEXEC) != 0;
}

void expect_connected(int a, int b) {
  char byte = 0;
  ASSERT_EQ(send(a, "x", 1, MSG_NOSIGNAL), 1);
  ASSERT_EQ(recv(b, &byte, 1, 0), 1);
  EXPECT_EQ(byte, 'x');
}

int connect_to(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  return fd;
}

TEST(SocketsTest, PairIsConnectedAndClosesOnExec) {
  const auto [a, b] = unix_socket_pair();
  expect_connected(a.get(), b.get());
  EXPECT_TRUE(closes_on_exec(a) && closes_on_exec(b));
}

TEST(SocketsTest, TcpListenerGetsAPortOfItsOwn) {
  const TcpListener one = tcp_listen("127.0.0.1"), two = tcp_listen("localhost");
  EXPECT_GT(one.port, 0);
  EXPECT_NE(one.port, two.port);
  EXPECT_TRUE(closes_on_exec(one.fd));
  const UniqueFd client(connect_to(one.port));
  const UniqueFd server = accept_connection(one.fd.get());
  expect_connected(client.get(), server.get());
  EXPECT_TRUE(closes_on_exec(server));
}

TEST(SocketsTest, TakenPortAndForeignAddressAreErrors) {
  const TcpListener taken = tcp_listen("127.0.0.1");
  EXPECT_THAT(message_of([&] { tcp_listen("127.0.0.1", taken.port); }),
              HasSubstr("cannot listen on 127.0.0.1 port " + std::to_string(taken.port) + ": Address already in use"));
  EXPECT_THAT(message_of([] { tcp_listen("192.0.2.1"); }), HasSubstr("Cannot assign requested address"));
  EXPECT_THAT(message_of([] { tcp_listen("no such host"); }), HasSubstr("cannot listen on no such host"));
}

TEST(SocketsTest, UnixListenAndConnect) {
  TempDir directory;
  const std::string path = directory.path() + "/s";
  EXPECT_THAT(message_of([&] { unix_connect(path); }), HasSubstr("No such file or directory"));
  const UniqueFd listener = unix_listen(path);
  const UniqueFd client = unix_connect(path);
  const UniqueFd server = accept_connection(listener.get());
  expect_connected(client.get(), server.get());
  fcntl(listener.get(), F_SETFL, O_NONBLOCK);
  EXPECT_FALSE(accept_connection(listener.get())) << "nobody else waits";
}

TEST(SocketsTest, StaleSocketFileIsReplacedButNotALiveOneNorAFile) {
  TempDir directory;
  const std::string path = directory.path() + "/s";
  unix_listen(path);  // closed at once: its file stays
  struct stat status {};
  ASSERT_EQ(stat(path.c_str(), &status), 0);
  const UniqueFd live = unix_listen(path);
  EXPECT_THAT(message_of([&] { unix_listen(path); }), HasSubstr("Address already in use"));
  accept_connection(live.get());  // the attempt above knocked
  const UniqueFd client = unix_connect(path), server = accept_connection(live.get());
  expect_connected(client.get(), server.get());

  const std::string file = directory.path() + "/file";
  close(open(file.c_str(), O_CREAT | O_WRONLY, 0600));
  EXPECT_THAT(message_of([&] { unix_listen(file); }), HasSubstr("Address already in use"));
  EXPECT_EQ(stat(file.c_str(), &status), 0) << "somebody's file was removed";
}

TEST(SocketsTest, SweepingADirectoryThatCannotBeReadIsNoError) {
  TempDir directory;
  EXPECT_NO_THROW(remove_dead_sockets(directory.path() + "/none", ""));
  close(open((directory.path() + "/file").c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  EXPECT_NO_THROW(remove_dead_sockets(directory.path() + "/file", ""));
}

TEST(SocketsTest, LongPathsAreRefusedBeforeTheKernelCutsThem) {
  TempDir directory;
  const std::string base = directory.path() + "/";
  const UniqueFd longest = unix_listen(base + std::string(107 - base.size(), 'x'));
  EXPECT_TRUE(longest);
  const std::string path = base + std::string(108 - base.size(), 'x');
  EXPECT_THAT(message_of([&] { unix_listen(path); }), HasSubstr("its path has 108 bytes, 107 are possible"));
  EXPECT_THAT(message_of([&] { unix_connect(path); }), HasSubstr("use a shorter directory"));
}

}  // namespace
}  // namespace gputrain

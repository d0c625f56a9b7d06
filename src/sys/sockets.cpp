#include "sys/sockets.h"

#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <memory>

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "util/error.h"

namespace gputrain {
namespace {

[[noreturn]] void fail(const std::string& what, const std::string& why, const std::string& hint = "") {
  throw Error(ErrorKind::kEnvironment, what + ": " + why, "", hint);
}

constexpr size_t kMaxUnixPath = sizeof(sockaddr_un::sun_path) - 1;

sockaddr_un unix_address(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() > kMaxUnixPath) {
    fail("cannot use socket " + path,
         "its path has " + std::to_string(path.size()) + " bytes, " + std::to_string(kMaxUnixPath) + " are possible",
         "use a shorter directory");
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

UniqueFd unix_socket() {
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd) fail("cannot make a socket", errno_text(errno));
  return fd;
}

// 0, or the errno of connect().
int try_connect(int fd, const sockaddr_un& address) {
  return connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 ? 0 : errno;
}

int bound_port(int fd) {
  sockaddr_storage bound{};
  socklen_t size = sizeof bound;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &size) != 0) return 0;
  return ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(bound).sin6_port
                                           : reinterpret_cast<sockaddr_in&>(bound).sin_port);
}

void remove_if_dead(const std::string& path) {
  constexpr time_t kYoung = 60;
  struct stat status {};
  if (path.size() > kMaxUnixPath || lstat(path.c_str(), &status) != 0) return;
  if (!S_ISSOCK(status.st_mode) || status.st_uid != geteuid() || time(nullptr) - status.st_mtime < kYoung) return;
  // Not blocking: a listener with a full queue is alive.
  const UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (fd && try_connect(fd.get(), unix_address(path)) == ECONNREFUSED) unlink(path.c_str());
}

}  // namespace

std::pair<UniqueFd, UniqueFd> unix_socket_pair() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    fail("cannot make a socket pair", errno_text(errno));
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

TcpListener tcp_listen(const std::string& address, int port) {
  const std::string what = "cannot listen on " + address + " port " + std::to_string(port);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found)) {
    fail(what, gai_strerror(error));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, freeaddrinfo);
  TcpListener listener;
  listener.fd.reset(socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  if (!listener.fd) fail(what, errno_text(errno));
  setsockopt(listener.fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(listener.fd.get(), found->ai_addr, found->ai_addrlen) != 0 || listen(listener.fd.get(), SOMAXCONN) != 0) {
    fail(what, errno_text(errno));
  }
  listener.port = bound_port(listener.fd.get());
  return listener;
}

UniqueFd unix_listen(const std::string& path) {
  const auto address = unix_address(path);
  struct stat status {};
  const bool is_socket = lstat(path.c_str(), &status) == 0 && S_ISSOCK(status.st_mode);
  if (is_socket && try_connect(unix_socket().get(), address) == ECONNREFUSED) unlink(path.c_str());
  UniqueFd fd = unix_socket();
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      listen(fd.get(), SOMAXCONN) != 0) {
    fail("cannot listen on socket " + path, errno_text(errno));
  }
  return fd;
}

void remove_dead_sockets(const std::string& directory, const std::string& prefix) {
  std::error_code error;
  for (std::filesystem::directory_iterator entry(directory, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename();
    if (name.starts_with(prefix) && name.ends_with(".sock")) remove_if_dead(entry->path());
  }
}

UniqueFd unix_connect(const std::string& path) {
  const auto address = unix_address(path);
  UniqueFd fd = unix_socket();
  if (const int error = try_connect(fd.get(), address)) fail("cannot connect to socket " + path, errno_text(error));
  return fd;
}

UniqueFd accept_connection(int listener) {
  UniqueFd fd(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
  const bool ordinary = errno == EAGAIN || errno == EINTR || errno == ECONNABORTED;
  if (!fd && !ordinary) fail("cannot accept a connection", errno_text(errno));
  return fd;
}

}  // namespace gputrain

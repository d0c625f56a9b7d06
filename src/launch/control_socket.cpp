#include "launch/control_socket.h"

#include <cerrno>
#include <chrono>
#include <filesystem>

#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launch/fnv.h"
#include "sys/clock.h"
#include "sys/files.h"
#include "sys/process.h"
#include "sys/sockets.h"
#include "util/error.h"
#include "util/foreign_json.h"

namespace gputrain {
namespace {

constexpr size_t kMaxRequest = 4096;
constexpr size_t kMaxPath = 107;
constexpr std::chrono::seconds kAnswerWait{5};

Json answer(const ControlSocket::Handler& handler, const std::string& line) {
  const Json request = parse_foreign_json(line);
  if (!request.is_object() || !request.contains("request")) return {{"error", "not a request: " + line}};
  try {
    return handler(request);
  } catch (const std::exception& problem) {
    return {{"error", problem.what()}};
  }
}

// The rest of a line, within kAnswerWait in all.
std::string read_line(int fd) {
  std::string text;
  const MonotonicTime deadline = real_clock().now() + kAnswerWait;
  while (text.empty() || text.back() != '\n') {
    const double left = seconds_between(real_clock().now(), deadline);
    pollfd ready{fd, POLLIN, 0};
    if (left <= 0 || ::poll(&ready, 1, static_cast<int>(left * 1000) + 1) == 0) return "";
    char buffer[kMaxRequest];
    const ssize_t got = ::read(fd, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return "";
    text.append(buffer, static_cast<size_t>(got));
  }
  return text;
}

// Begins the names of the sockets that this host has made since its boot.
std::string host_prefix() {
  return fnv_hex(host_name() + boot_id()).substr(0, 8) + "-";
}

}  // namespace

std::string control_socket_path(const std::string& control_directory, const std::string& output) {
  return control_directory + "/" + host_prefix() + fnv_hex(output) + ".sock";
}

ControlSocket::ControlSocket(EventLoop& loop, std::string path, Handler handler)
    : loop_(loop), path_(std::move(path)), handler_(std::move(handler)) {
  if (path_.size() > kMaxPath) {
    throw Error(ErrorKind::kEnvironment,
                "the control socket's path is longer than " + std::to_string(kMaxPath) + " bytes", path_,
                "set XDG_RUNTIME_DIR or TMPDIR to a short directory");
  }
  const std::filesystem::path directory = std::filesystem::path(path_).parent_path();
  std::error_code ignored;
  if (std::filesystem::create_directories(directory, ignored)) ::chmod(directory.c_str(), 0700);
  // Until it listens: another launch's sweep would take a name that is bound just now for a dead run's.
  const UniqueFd lock = lock_directory(directory);
  remove_dead_sockets(directory, host_prefix());
  ::unlink(path_.c_str());
  listener_ = unix_listen(path_);
  set_nonblocking(listener_.get());
  loop_.watch_readable(listener_.get(), [this] { accept_client(); });
}

ControlSocket::~ControlSocket() {
  while (!clients_.empty()) drop_client(clients_.begin()->first);
  loop_.unwatch_readable(listener_.get());
  ::unlink(path_.c_str());
}

void ControlSocket::accept_client() {
  UniqueFd client = accept_connection(listener_.get());
  if (!client) return;
  const int fd = client.release();
  set_nonblocking(fd);
  clients_[fd];
  loop_.watch_readable(fd, [this, fd] { read_client(fd); });
}

void ControlSocket::read_client(int fd) {
  char buffer[kMaxRequest];
  const ssize_t got = ::read(fd, buffer, sizeof buffer);
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (got <= 0) return drop_client(fd);
  std::string& text = clients_[fd];
  text.append(buffer, static_cast<size_t>(got));
  const size_t end = text.find('\n');
  if (end == std::string::npos && text.size() < kMaxRequest) return;
  const Json reply =
      end == std::string::npos ? Json{{"error", "the request is too long"}} : answer(handler_, text.substr(0, end));
  write_all(fd, dump_line(reply) + "\n");  // an asker that has gone, or does not read 64 KiB, gets no more
  drop_client(fd);
}

void ControlSocket::drop_client(int fd) {
  loop_.unwatch_readable(fd);
  clients_.erase(fd);
  ::close(fd);
}

Json control_request(const std::string& socket_path, const Json& request) {
  const UniqueFd fd = unix_connect(socket_path);
  write_all(fd.get(), dump_line(request) + "\n");
  const std::string reply = read_line(fd.get());
  if (reply.empty()) throw Error(ErrorKind::kEnvironment, "the run's controller does not answer", socket_path);
  return parse_json(reply, socket_path);
}

}  // namespace gputrain

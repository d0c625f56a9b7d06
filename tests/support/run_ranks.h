#pragma once
// Several ranks on this machine: each a forked child with one thread, meeting on a store whose socket the parent bound.
#include <chrono>
#include <csignal>
#include <cstdio>
#include <exception>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <ATen/Parallel.h>
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dist/comm.h"

namespace gputrain::test {

// How a rank ended: its exit code, or the signal that killed it (SIGKILL by the watchdog sets timed_out too).
struct RankExit {
  int code = -1;
  int signal = 0;
  bool timed_out = false;
  bool operator==(const RankExit&) const = default;
};

inline void PrintTo(const RankExit& exit, std::ostream* out) {
  *out << "{code " << exit.code << ", signal " << exit.signal << (exit.timed_out ? ", timed out}" : "}");
}

// A listening TCP socket on 127.0.0.1 with a port of the kernel's choice.
struct ListeningSocket {
  int fd = -1;
  int port = 0;
};

inline ListeningSocket listen_on_loopback() {
  ListeningSocket result{::socket(AF_INET, SOCK_STREAM, 0), 0};
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (result.fd < 0 || ::bind(result.fd, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::listen(result.fd, 64) != 0 || ::getsockname(result.fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    throw std::runtime_error("cannot listen on 127.0.0.1");
  }
  result.port = ntohs(address.sin_port);
  return result;
}

using RankFunction = std::function<void(int rank, CommOptions options)>;

// In the child: 0 when `body` returned without a failed EXPECT, 1 after a failure or an exception (printed).
inline int run_rank_body(int rank, const CommOptions& options, const RankFunction& body) {
  try {
    body(rank, options);
    return ::testing::Test::HasFailure() ? 1 : 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rank %d: uncaught: %s\n", rank, error.what());
  }
  return 1;
}

// Waits for all children; kills those that still run after `limit`.
inline std::vector<RankExit> wait_for_ranks(const std::vector<pid_t>& children, std::chrono::milliseconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  std::vector<RankExit> exits(children.size());
  for (size_t i = 0; i < children.size(); ++i) {
    int status = 0;
    while (::waitpid(children[i], &status, WNOHANG) == 0) {
      if (std::chrono::steady_clock::now() > deadline && !exits[i].timed_out) {
        exits[i].timed_out = true;
        ::kill(children[i], SIGKILL);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    if (WIFEXITED(status)) exits[i].code = WEXITSTATUS(status);
    if (WIFSIGNALED(status)) exits[i].signal = WTERMSIG(status);
  }
  return exits;
}

// Runs `body` as ranks 0..world_size-1 and returns how each ended. The options carry rank, world size, store and a 10 s
// timeout. EXPECT and ASSERT work in the children. The parent must not have run a parallel LibTorch operation.
inline std::vector<RankExit> run_ranks(int world_size, const RankFunction& body,
                                       std::chrono::milliseconds limit = std::chrono::seconds(30)) {
  const ListeningSocket store = listen_on_loopback();
  std::fflush(nullptr);
  std::vector<pid_t> children;
  for (int rank = 0; rank < world_size; ++rank) {
    const pid_t child = ::fork();
    if (child < 0) throw std::runtime_error("fork failed");
    if (child == 0) {
      if (rank != 0) ::close(store.fd);
      at::set_num_threads(1);
      CommOptions options;
      options.rank = rank;
      options.world_size = world_size;
      options.store_address = "127.0.0.1";
      options.store_port = store.port;
      options.store_listen_fd = rank == 0 ? store.fd : -1;
      options.key_prefix = "test/1";
      options.timeout = std::chrono::seconds(10);
      options.connect_timeout = std::chrono::seconds(10);
      const int code = run_rank_body(rank, options, body);
      std::fflush(nullptr);
      ::_exit(code);
    }
    children.push_back(child);
  }
  ::close(store.fd);  // or the port would stay open when rank 0 dies
  return wait_for_ranks(children, limit);
}

inline std::vector<RankExit> all_succeed(int world_size) {
  return std::vector<RankExit>(world_size, RankExit{0, 0, false});
}

}  // namespace gputrain::test

#pragma once
// Runs an agent in a process of its own and plays its controller over two pipes. Every wait is bounded.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launch/agent.h"
#include "support/temp_dir.h"
#include "sys/clock.h"
#include "sys/process.h"
#include "util/log.h"
#include "wire/codec.h"

namespace gputrain::testing {

constexpr double kPatience = 8;  // seconds, for what should come at once

inline std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline char process_state(pid_t pid) {
  const std::string stat = read_text("/proc/" + std::to_string(pid) + "/stat");
  const auto end = stat.rfind(')');
  return end == std::string::npos ? '-' : stat[end + 2];
}
// A zombie has ended: only its parent has not looked yet.
inline bool is_gone(pid_t pid) {
  return process_state(pid) == '-' || process_state(pid) == 'Z';
}

inline bool eventually(const std::function<bool()>& condition, double seconds = kPatience) {
  const auto start = real_clock().now();
  while (!condition()) {
    if (seconds_between(start, real_clock().now()) > seconds) return false;
    poll(nullptr, 0, 5);
  }
  return true;
}

class AgentProcess {
 public:
  explicit AgentProcess(const std::string& script, AgentOptions options = {}) {
    options.worker = std::string(GPUTRAIN_BINARY_DIR) + "/fake_worker";
    setenv("FAKE_WORKER_SCRIPT", script.c_str(), 1);
    int to[2], from[2];
    if (pipe2(to, O_CLOEXEC) != 0 || pipe2(from, O_CLOEXEC) != 0) std::abort();
    pid_ = fork();
    if (pid_ == 0) {
      alarm(60);
      dup2(to[0], 0);
      dup2(from[1], 1);
      const int log = open((directory_ / "agent.stderr").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
      dup2(log, 2);
      for (int fd : {to[0], to[1], from[0], from[1], log}) close(fd);
      set_up_log("agent");
      _exit(run_agent(options));
    }
    close(to[0]);
    close(from[1]);
    to_agent_ = to[1];
    from_agent_ = from[0];
  }
  ~AgentProcess() {
    hang_up();
    close(from_agent_);
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
  }

  pid_t pid() const { return pid_; }
  std::string output() const { return directory_ / "out"; }
  std::string stderr_text() const { return read_text(directory_ / "agent.stderr"); }
  const std::string& directory() const { return directory_.path(); }

  // An attempt of `ranks` ranks on this agent alone.
  Start start(int ranks, int attempt = 1) const {
    Start start;
    start.attempt = attempt;
    start.run_id = "test-run";
    start.world_size = ranks;
    start.store_address = "127.0.0.1";
    start.store_port = 12345;
    start.plan = {{"output", output()}};
    for (int rank = 0; rank < ranks; ++rank) start.slots.push_back({rank, rank, -1, 1});
    start.lease_ms = lease_ms;
    return start;
  }
  // Starts it and waits until every rank is ready.
  void start_and_await_ready(int ranks, int attempt = 1) {
    send(start(ranks, attempt));
    for (int rank = 0; rank < ranks; ++rank) {
      pids.push_back(expect<RankStarted>().pid);
      EXPECT_GT(pids.back(), 0);
    }
    for (int rank = 0; rank < ranks; ++rank) expect<RankReady>();
  }

  void send(const Message& message) {
    const std::string frame = encode(message);
    ASSERT_EQ(write(to_agent_, frame.data(), frame.size()), static_cast<ssize_t>(frame.size()));
  }
  void hang_up() {
    if (to_agent_ >= 0) close(to_agent_);
    to_agent_ = -1;
  }

  // The next message of type T; others stay for later calls, in their order. Heartbeats are counted and answered.
  template <class T>
  T expect(double seconds = kPatience) {
    const auto start = real_clock().now();
    while (true) {
      for (auto item = inbox_.begin(); item != inbox_.end(); ++item) {
        if (!std::holds_alternative<T>(*item)) continue;
        const T found = std::get<T>(*item);
        inbox_.erase(item);
        return found;
      }
      const double left = seconds - seconds_between(start, real_clock().now());
      if (left <= 0 || !receive(static_cast<int>(left * 1000) + 1)) {
        ADD_FAILURE() << "no " << message_name(T()) << " came; the agent said: " << stderr_text();
        return {};
      }
    }
  }
  // What has come and was not asked for yet.
  template <class T>
  int count_waiting() {
    while (receive(0)) {
    }
    return static_cast<int>(
        std::count_if(inbox_.begin(), inbox_.end(), [](const auto& item) { return std::holds_alternative<T>(item); }));
  }
  // Every message up to and including the next T, in order of arrival.
  template <class T>
  std::vector<Message> all_until() {
    while (inbox_.empty() || !std::holds_alternative<T>(inbox_.back())) {
      if (!receive(static_cast<int>(kPatience * 1000))) {
        ADD_FAILURE() << "no " << message_name(T()) << " came";
        break;
      }
    }
    std::vector<Message> all(inbox_.begin(), inbox_.end());
    inbox_.clear();
    return all;
  }

  // Exit status of the agent, or -1 when it does not end.
  int wait_exit(double seconds = kPatience) {
    int status = 0;
    const bool ended = eventually([&] { return waitpid(pid_, &status, WNOHANG) == pid_; }, seconds);
    if (!ended) return -1;
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  int heartbeats = 0;
  bool answer_heartbeats = true;
  int64_t lease_ms = 2000;
  std::vector<pid_t> pids;  // of the ranks, in order of their start

 private:
  // False when nothing came in time, or the agent has gone.
  bool receive(int timeout_ms) {
    const size_t before = inbox_.size();
    const auto start = real_clock().now();
    while (inbox_.size() == before) {
      const int left = timeout_ms - static_cast<int>(1000 * seconds_between(start, real_clock().now()));
      pollfd item{from_agent_, POLLIN, 0};
      if (poll(&item, 1, std::max(0, left)) <= 0) return false;
      char chunk[64 << 10];
      const ssize_t length = read(from_agent_, chunk, sizeof chunk);
      if (length <= 0) return false;
      decoder_.feed({chunk, static_cast<size_t>(length)});
      while (auto message = decoder_.next()) take(std::move(*message));
    }
    return true;
  }
  void take(Message message) {
    if (!std::holds_alternative<Heartbeat>(message)) return inbox_.push_back(std::move(message));
    ++heartbeats;
    if (answer_heartbeats && to_agent_ >= 0) send(Heartbeat{heartbeats});
  }

  TempDir directory_;
  pid_t pid_ = -1;
  int to_agent_ = -1, from_agent_ = -1;
  Decoder decoder_;
  std::deque<Message> inbox_;
};

}  // namespace gputrain::testing

#pragma once
// The controller's end of one agent: its process, its connection, its heartbeats, and a new one when it is lost.
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sys/event_loop.h"
#include "sys/process.h"
#include "wire/connection.h"

namespace gputrain {

struct AgentLinkOptions {
  std::string host;                       // for people
  std::vector<std::string> argv;          // a local child that speaks the protocol on stdin and stdout
  std::chrono::milliseconds lease{2000};  // after 1.5 of them without a message an agent is lost
};

class AgentLink {
 public:
  struct Handlers {
    std::function<void()> on_ready;                       // it said hello: attempts may use it
    std::function<void(const Message&)> on_message;       // all but AgentHello and Heartbeat
    std::function<void(const std::string& why)> on_lost;  // gone or silent; a new one is on its way
    std::function<void(const Error&)> on_dead;            // it cannot be started: given up
  };

  // Starts the agent; throws SpawnError when it cannot be executed.
  AgentLink(EventLoop& loop, AgentLinkOptions options, Handlers handlers);
  ~AgentLink();  // end()
  AgentLink(const AgentLink&) = delete;
  AgentLink& operator=(const AgentLink&) = delete;

  bool ready() const { return ready_; }
  pid_t pid() const { return child_.pid; }
  void send(const Message& message);
  // Gives back credit for the RankRecord being handled, in portions.
  void return_credit();
  // About ten times a second: heartbeats, and whether it is silent.
  void tick(MonotonicTime now);
  // This process stood still for that long: silence during it is not the agent's.
  void forgive(std::chrono::nanoseconds pause);
  // Asks it to end; does not wait.
  void say_bye();
  // Ends it: Bye, then SIGKILL after 4 s. Its pid when even that did not end it within 2 s (it hangs in the kernel).
  std::optional<pid_t> end();

 private:
  void start();
  void on_message(const Message& message);
  void lost(std::string why);
  bool killed();
  std::string how_it_ended();

  EventLoop& loop_;
  AgentLinkOptions options_;
  Handlers handlers_;
  Child child_;
  std::unique_ptr<Connection> connection_;
  bool ready_ = false;
  int failed_starts_ = 0;
  int64_t heartbeats_ = 0;
  int64_t owed_credit_ = 0;
  MonotonicTime last_heard_{}, last_beat_{};
  EventLoop::TimerId restart_timer_ = 0;
};

// Processes by pid, with their start times.
using ProcessSet = std::map<pid_t, uint64_t>;
// The descendants of this process now: before the first agent they are those of the shell that became gputrain by exec.
ProcessSet present_descendants();

// Ends and reaps orphaned processes that became this process's children when their agent died. `agents` are the living
// ones; `others` are none of ours and are left alone.
void end_orphans(const std::vector<pid_t>& agents, const ProcessSet& others);

}  // namespace gputrain

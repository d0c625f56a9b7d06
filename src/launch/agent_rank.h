#pragma once
// One rank as its agent sees it: a process, its socket, its output and its progress page.
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "launch/agent_command.h"
#include "launch/agent_output.h"
#include "sys/clock.h"
#include "sys/event_loop.h"
#include "sys/process.h"
#include "sys/shared_page.h"
#include "wire/connection.h"
#include "wire/progress_page.h"

namespace gputrain {

class AgentRank {
 public:
  struct Handlers {
    std::function<void(AgentRank&, Message)>
        on_message;  // Ready, WorkerError (the agent's own findings too), Record, Sync, Done
    std::function<void(AgentRank&, RankExited)>
        on_exit;  // the last call: everything it sent came before. It may destroy the object
  };

  // Starts the process. Throws SpawnError, or Error(kEnvironment) when the machine is out of descriptors or memory.
  // `store_listener`: -1, or the socket that the rank inherits.
  AgentRank(EventLoop& loop, RankCommand command, int store_listener, Handlers handlers);
  ~AgentRank();  // SIGKILLs and reaps what is left
  AgentRank(const AgentRank&) = delete;

  int attempt() const { return command_.assign.attempt; }
  int rank() const { return command_.assign.rank; }
  pid_t pid() const { return child_.pid; }
  ProgressSnapshot progress() const { return snapshot(*page()); }

  void send(
      const Message& message);  // waits until the worker has been assigned its work: Assign is what it hears first
  void open_log();
  void kill();                     // SIGKILL, remembered as ours
  void signal(int signal_number);  // to the whole group (SIGSTOP, SIGCONT)

  std::optional<MonotonicTime> deadline;  // SIGKILL then; the agent watches it

 private:
  Child start(int store_listener);
  const ProgressPage* page() const { return static_cast<const ProgressPage*>(page_.data()); }
  void on_message(Message message);
  void greet(const WorkerHello& hello);
  void fail(const std::string& problem);
  bool read_output();
  void finish();

  EventLoop& loop_;
  RankCommand command_;
  Handlers handlers_;
  SharedPage page_;
  UniqueFd output_pipe_;
  RankOutput output_;
  std::unique_ptr<Connection> socket_;
  Child child_;
  bool alive_ = false;
  bool killed_by_us_ = false;
  bool assigned_ = false;
  std::vector<Message> waiting_;
};

}  // namespace gputrain

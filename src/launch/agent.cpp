#include "launch/agent.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <memory>
#include <vector>

#include <poll.h>

#include "launch/agent_rank.h"
#include "sys/oom.h"
#include "sys/sockets.h"
#include "util/log.h"
#include "util/text.h"

namespace gputrain {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kTick{100};  // resolution of leases and deadlines
constexpr milliseconds kSweep{50};
constexpr milliseconds kLastSweep{2000};  // at exit: until every descendant is gone

class Agent {
 public:
  explicit Agent(const AgentOptions& options);
  int run();

 private:
  void on_message(const Message& message);
  void handle(const Listen& listen);
  void handle(const Start& start);
  void handle(const Go& go);
  void handle(const Stop& stop);
  void handle(const Kill& kill);
  void handle(const Release& release);
  void handle(const Synced& synced);
  void handle(const Pause&);
  void handle(const Continue&);
  void handle(const Credit& credit) { controller_->add_credit(credit.bytes); }
  void handle(const Heartbeat&) {}
  void handle(const Bye&) { end(0, ""); }
  template <class Other>
  void handle(const Other& other) {
    end(70, "the controller sent " + std::string(message_name(other)) + ", which only others send");
  }

  void start_rank(const Start& start, const SlotAssignment& slot);
  void on_rank_message(AgentRank& rank, const Message& message);
  void on_rank_exit(AgentRank& rank, RankExited exited);
  void report_start_failure(const Start& start, const SlotAssignment& slot, const Error& error);
  bool killed_by_kernel(const RankExited& exited);
  std::vector<pid_t> rank_pids() const;
  void tick();
  void sweep();
  void on_signal(int signal_number);
  void end(int exit_code, const std::string& why);
  void end_all_processes();
  template <class Action>
  void for_attempt(int attempt, Action action);

  AgentOptions options_;
  EventLoop loop_;
  std::unique_ptr<Connection> controller_;
  std::vector<std::unique_ptr<AgentRank>> ranks_;  // alive, of any attempt
  TcpListener store_;
  int store_attempt_ = -1;
  milliseconds lease_ = kShortestLease;
  MonotonicTime last_heard_, last_heartbeat_;
  int64_t heartbeats_ = 0;
  std::optional<MonotonicTime> paused_since_;
  std::optional<int64_t> oom_kills_seen_;
  int exit_code_ = 70;
};

Agent::Agent(const AgentOptions& options) : options_(options), oom_kills_seen_(oom_kill_count()) {
  ignore_sigpipe();
  become_subreaper();
  last_heard_ = last_heartbeat_ = real_clock().now();
  loop_.watch_signals(heeded_notice_signals(), [this](int signal_number) { on_signal(signal_number); });
  controller_ = std::make_unique<Connection>(
      loop_, options.read_fd, options.write_fd,
      Connection::Handlers{
          [this](Message message) { on_message(message); },
          [this](const std::string& problem) { end(70, problem.empty() ? "the controller has gone" : problem); }});
  controller_->limit_bulk(kInitialCredit);
}

int Agent::run() {
  AgentHello hello;
  hello.version = program_version();
  hello.pid = getpid();
  hello.host = host_name();
  hello.cores = cpu_count();
  hello.gpus = options_.gpus;
  hello.boot_id = boot_id();
  controller_->send(hello);
  loop_.after(kTick, [this] { tick(); });
  loop_.run();
  end_all_processes();
  return exit_code_;
}

void Agent::on_message(const Message& message) {
  last_heard_ = real_clock().now();
  std::visit([this](const auto& alternative) { handle(alternative); }, message);
}

// Messages about attempts that are over find no ranks.
template <class Action>
void Agent::for_attempt(int attempt, Action action) {
  for (const auto& rank : ranks_) {
    if (rank->attempt() == attempt) action(*rank);
  }
}

void Agent::handle(const Listen& listen) {
  Listening answer{listen.attempt, listen.address, 0, ""};
  lease_ = milliseconds(listen.lease_ms);
  try {
    store_ = tcp_listen(listen.address);
    store_attempt_ = listen.attempt;
    answer.port = store_.port;
  } catch (const Error& error) {
    answer.problem = error.render();
  }
  controller_->send(answer);
}

void Agent::handle(const Start& start) {
  lease_ = milliseconds(start.lease_ms);
  for (const auto& slot : start.slots) {
    try {
      start_rank(start, slot);
    } catch (const Error& error) {
      report_start_failure(start, slot, error);
    }
  }
  store_.fd.reset();  // rank 0 has it now
}

void Agent::start_rank(const Start& start, const SlotAssignment& slot) {
  const bool listens = store_.fd && store_attempt_ == start.attempt;
  RankCommand command = rank_command(options_, start, slot, listens);
  const int listener = command.assign.store_fd >= 0 ? store_.fd.get() : -1;
  AgentRank::Handlers handlers{
      [this](AgentRank& rank, Message message) { on_rank_message(rank, message); },
      [this](AgentRank& rank, RankExited exited) { on_rank_exit(rank, std::move(exited)); },
  };
  ranks_.push_back(std::make_unique<AgentRank>(loop_, std::move(command), listener, std::move(handlers)));
  controller_->send(RankStarted{start.attempt, slot.rank, ranks_.back()->pid()});
}

void Agent::report_start_failure(const Start& start, const SlotAssignment& slot, const Error& error) {
  const auto* spawn_error = dynamic_cast<const SpawnError*>(&error);
  if (error.kind == ErrorKind::kEnvironment) spawn_error = nullptr;  // the machine's fault, not the program's
  if (!spawn_error) {
    const WireError wire{error.kind, error.message, error.where, error.hint};
    controller_->send(RankError{start.attempt, slot.rank, wire, {}});
  }
  RankExited exited;
  exited.attempt = start.attempt;
  exited.rank = slot.rank;
  exited.code = spawn_error ? 0 : static_cast<int>(exit_code(error.kind));
  exited.exec_errno = spawn_error ? spawn_error->error_number : 0;
  exited.log_tail = error.render() + "\n";
  exited.unix_micros = real_clock().unix_micros();
  controller_->send(exited);
}

void Agent::handle(const Go& go) {
  for_attempt(go.attempt, [&](AgentRank& rank) {
    rank.open_log();
    rank.send(go);
  });
}

void Agent::handle(const Stop& stop) {
  const auto deadline = real_clock().now() + milliseconds(stop.grace_ms) + kStopSlack;
  for_attempt(stop.attempt, [&](AgentRank& rank) {
    rank.deadline = rank.deadline ? std::min(*rank.deadline, deadline) : deadline;
    rank.send(stop);
  });
}

void Agent::handle(const Kill& kill) {
  for_attempt(kill.attempt, [](AgentRank& rank) { rank.kill(); });
}

void Agent::handle(const Release& release) {
  for_attempt(release.attempt, [&](AgentRank& rank) { rank.send(release); });
}

void Agent::handle(const Synced& synced) {
  for_attempt(synced.attempt, [&](AgentRank& rank) {
    if (rank.rank() == synced.rank) rank.send(synced);
  });
}

void Agent::handle(const Pause&) {
  if (!paused_since_) paused_since_ = real_clock().now();
  for (const auto& rank : ranks_) rank->signal(SIGSTOP);
}

void Agent::handle(const Continue&) {
  if (!paused_since_) return;
  const auto pause = real_clock().now() - *paused_since_;
  paused_since_.reset();
  for (const auto& rank : ranks_) {
    if (rank->deadline) *rank->deadline += pause;
    rank->signal(SIGCONT);
  }
}

void Agent::on_rank_message(AgentRank& rank, const Message& message) {
  const int attempt = rank.attempt(), number = rank.rank();
  if (const auto* record = std::get_if<Record>(&message)) {
    controller_->send(RankRecord{attempt, number, record->json});
  } else if (const auto* ready = std::get_if<Ready>(&message)) {
    controller_->send(RankReady{attempt, number, ready->body});
  } else if (const auto* error = std::get_if<WorkerError>(&message)) {
    controller_->send(RankError{attempt, number, error->error, rank.progress()});
  } else if (const auto* sync = std::get_if<Sync>(&message)) {
    controller_->send(RankSync{attempt, number, sync->id});
  } else if (const auto* done = std::get_if<Done>(&message)) {
    controller_->send(RankDone{attempt, number, done->body});
  }
}

void Agent::on_rank_exit(AgentRank& rank, RankExited exited) {
  exited.oom_killed = killed_by_kernel(exited);
  std::erase_if(ranks_, [&](const auto& candidate) { return candidate.get() == &rank; });
  if (ranks_.empty()) sweep();  // before the controller hears that the last one has ended
  controller_->send(exited);
}

// Each kill of the counter accounts for one death.
bool Agent::killed_by_kernel(const RankExited& exited) {
  if (exited.signal != SIGKILL || exited.killed_by_us || !oom_kills_seen_) return false;
  const auto count = oom_kill_count();
  if (!count || *count <= *oom_kills_seen_) return false;
  ++*oom_kills_seen_;
  return true;
}

// What ranks left behind (in groups and sessions of their own) became our children. Only while no rank is alive.
void Agent::sweep() {
  if (!ranks_.empty()) return;
  const auto left = descendants();
  for (pid_t pid : left) kill(pid, SIGKILL);
  reap_orphans({});
  if (!left.empty()) loop_.after(kSweep, [this] { sweep(); });
}

std::vector<pid_t> Agent::rank_pids() const {
  std::vector<pid_t> pids;
  pids.reserve(ranks_.size());
  for (const auto& rank : ranks_) pids.push_back(rank->pid());
  return pids;
}

void Agent::tick() {
  loop_.after(kTick, [this] { tick(); });
  reap_orphans(rank_pids());
  if (paused_since_) return;  // leases and deadlines stand still, and nobody reads heartbeats
  const auto now = real_clock().now();
  if (!ranks_.empty() && now - last_heard_ > lease_) {
    return end(70, "no message from the controller for " + std::to_string(lease_.count()) + " ms");
  }
  for (const auto& rank : ranks_) {
    if (rank->deadline && now > *rank->deadline) rank->kill();
  }
  if (now - last_heartbeat_ >= heartbeat_interval(lease_)) {
    last_heartbeat_ = now;
    controller_->send(Heartbeat{++heartbeats_});
  }
}

void Agent::on_signal(int signal_number) {
  controller_->send(AgentNotice{signal_number == SIGINT ? StopReason::kInterrupted : StopReason::kPreempted});
}

void Agent::end(int exit_code, const std::string& why) {
  exit_code_ = exit_code;
  const auto alive = static_cast<int64_t>(ranks_.size());
  if (!why.empty() && alive > 0) log_line(LogLevel::kError, why + ": ending " + plural(alive, "rank"));
  for (const auto& rank : ranks_) rank->kill();
  loop_.stop();
}

void Agent::end_all_processes() {
  ranks_.clear();
  const auto give_up = real_clock().now() + kLastSweep;
  for (auto left = descendants(); !left.empty() && real_clock().now() < give_up; left = descendants()) {
    for (pid_t pid : left) kill(pid, SIGKILL);
    reap_orphans({});
    poll(nullptr, 0, 2);
  }
  reap_orphans({});
}

}  // namespace

int run_agent(const AgentOptions& options) {
  return Agent(options).run();
}

}  // namespace gputrain

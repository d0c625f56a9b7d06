#include "launch/agent_rank.h"

#include <cerrno>
#include <csignal>
#include <new>

#include <fcntl.h>
#include <poll.h>

#include "sys/sockets.h"
#include "util/error.h"
#include "wire/env.h"

namespace gputrain {
namespace {

constexpr int kOutputPipeBytes = 1 << 20;  // a rank goes on printing while the agent waits for a slow log disk
constexpr int kLastOutputReads = 64;       // a grandchild out of reach may hold the pipe and print for ever
constexpr int kReapTimeoutMs = 2000;       // a process in uninterruptible sleep does not die: leave it to the kernel

std::pair<UniqueFd, UniqueFd> output_pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw Error(ErrorKind::kEnvironment, "cannot make a pipe: " + errno_text(errno));
  fcntl(ends[0], F_SETFL, O_NONBLOCK);  // our end only: workers expect an ordinary stdout
  fcntl(ends[0], F_SETPIPE_SZ, kOutputPipeBytes);
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

}  // namespace

AgentRank::AgentRank(EventLoop& loop, RankCommand command, int store_listener, Handlers handlers)
    : loop_(loop), command_(std::move(command)), handlers_(std::move(handlers)), page_(SharedPage::create(4096)) {
  new (page_.data()) ProgressPage();
  child_ = start(store_listener);
  alive_ = true;
  page_.close_fd();
  loop_.watch_readable(child_.pidfd, [this] { finish(); });
  loop_.watch_readable(output_pipe_.get(), [this] { read_output(); });
}

AgentRank::~AgentRank() {
  if (output_pipe_) loop_.unwatch_readable(output_pipe_.get());
  if (!alive_) return;
  loop_.unwatch_readable(child_.pidfd);
  signal_group(child_.pid, SIGKILL);
  pollfd item{child_.pidfd, POLLIN, 0};
  if (poll(&item, 1, kReapTimeoutMs) == 1) reap(child_);
  close(child_.pidfd);
}

Child AgentRank::start(int store_listener) {
  auto [ours, theirs] = unix_socket_pair();
  auto [read_end, write_end] = output_pipe();
  SpawnOptions options;
  options.argv = {command_.worker, "--socket-fd", std::to_string(env::kWorkerSocketFd), "--slot",
                  std::to_string(command_.assign.local_rank)};
  options.env = command_.environment;
  options.default_env = command_.default_environment;
  options.fds = {{theirs.get(), env::kWorkerSocketFd}, {page_.fd(), env::kProgressPageFd}};
  if (store_listener >= 0) options.fds.emplace_back(store_listener, env::kStoreListenFd);
  options.stdout_fd = options.stderr_fd = write_end.get();
  options.blocked_signals = {SIGTERM, SIGUSR1};  // until the worker's handler stands
  const Child child = spawn(options);

  output_pipe_ = std::move(read_end);
  const int fd = ours.release();
  socket_ =
      std::make_unique<Connection>(loop_, fd, fd,
                                   Connection::Handlers{[this](Message message) { on_message(std::move(message)); },
                                                        [this](const std::string& problem) {
                                                          // Silence is judged by the exit status, which follows.
                                                          if (!problem.empty())
                                                            fail("its worker sent what is not a message: " + problem);
                                                        }});
  return child;
}

void AgentRank::on_message(Message message) {
  if (const auto* hello = std::get_if<WorkerHello>(&message)) return greet(*hello);
  const bool expected = std::holds_alternative<Ready>(message) || std::holds_alternative<WorkerError>(message) ||
                        std::holds_alternative<Record>(message) || std::holds_alternative<Sync>(message) ||
                        std::holds_alternative<Done>(message);
  if (!expected) return fail("its worker sent " + std::string(message_name(message)) + ", which workers never send");
  handlers_.on_message(*this, std::move(message));
}

void AgentRank::greet(const WorkerHello& hello) {
  if (hello.version != program_version()) {
    return fail("its worker is of version " + hello.version + ", the agent of " + std::string(program_version()));
  }
  if (assigned_) return fail("its worker said hello twice");
  assigned_ = true;
  socket_->send(command_.assign);
  for (const auto& message : waiting_) socket_->send(message);
  waiting_.clear();
}

// A fault of the pair agent and worker: told as the rank's own typed error, and its end.
void AgentRank::fail(const std::string& problem) {
  kill();
  WorkerError error;
  error.error = {ErrorKind::kInternal, problem, command_.worker, "install gputrain and gputrain-worker from one build"};
  handlers_.on_message(*this, error);
}

void AgentRank::send(const Message& message) {
  if (assigned_) {
    socket_->send(message);
  } else {
    waiting_.push_back(message);
  }
}

void AgentRank::open_log() {
  if (!command_.log_path.empty()) output_.open(command_.log_path);
}

// Not remembered as ours when it has ended by itself and its exit has only not been read yet.
void AgentRank::kill() {
  if (!alive_ || has_ended(child_)) return;
  killed_by_us_ = true;
  signal_group(child_.pid, SIGKILL);
}

void AgentRank::signal(int signal_number) {
  if (alive_) signal_group(child_.pid, signal_number);
}

// False when there is nothing more to read now.
bool AgentRank::read_output() {
  if (!output_pipe_) return false;
  char chunk[64 << 10];
  const ssize_t length = read(output_pipe_.get(), chunk, sizeof chunk);
  if (length < 0 && errno == EINTR) return true;
  if (length < 0 && errno == EAGAIN) return false;
  if (length <= 0) {
    loop_.unwatch_readable(output_pipe_.get());
    output_pipe_.reset();
    return false;
  }
  output_.append({chunk, static_cast<size_t>(length)});
  return true;
}

void AgentRank::finish() {
  // The rest of the group first, while the dead leader still holds the group's number.
  signal_group(child_.pid, SIGKILL);
  socket_->drain();
  for (int i = 0; i < kLastOutputReads && read_output(); ++i) {
  }
  loop_.unwatch_readable(child_.pidfd);
  const ExitStatus status = reap(child_);
  alive_ = false;
  close(child_.pidfd);

  RankExited exited;
  exited.attempt = attempt();
  exited.rank = rank();
  exited.pid = child_.pid;
  exited.code = status.code;
  exited.signal = status.signal;
  exited.killed_by_us = killed_by_us_ && status.signal == SIGKILL;
  exited.progress = progress();
  exited.log_path = output_.path();
  exited.log_tail = output_.tail();
  exited.unix_micros = real_clock().unix_micros();
  handlers_.on_exit(*this, std::move(exited));
}

}  // namespace gputrain

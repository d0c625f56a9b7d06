#include "launch/agent_link.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include <poll.h>
#include <unistd.h>

#include "sys/fd.h"
#include "sys/sockets.h"
#include "util/error.h"
#include "util/exit_code.h"
#include "util/units.h"

namespace gputrain {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kHelloWait{30000};   // a loaded machine may take long to start a process
constexpr milliseconds kFirstBackoff{200};  // doubles with each start that fails
constexpr int kMaxFailedStarts = 5;
constexpr int kEndWait = 4000;    // ms; the agent itself gives unkillable ranks 2 s
constexpr int kKillWait = 2000;   // ms; a process in uninterruptible sleep does not die: leave it to the kernel
constexpr int kStatusWait = 200;  // ms from the end of the connection to the end of the process
constexpr int64_t kCreditPortion = kInitialCredit / 16;

bool wait_for_end(const Child& child, int timeout_ms) {
  pollfd ended{child.pidfd, POLLIN, 0};
  return ::poll(&ended, 1, timeout_ms) > 0;
}

}  // namespace

AgentLink::AgentLink(EventLoop& loop, AgentLinkOptions options, Handlers handlers)
    : loop_(loop), options_(std::move(options)), handlers_(std::move(handlers)) {
  start();
}

AgentLink::~AgentLink() {
  end();
}

std::optional<pid_t> AgentLink::end() {
  loop_.cancel(restart_timer_);
  if (child_.pid <= 0) return std::nullopt;
  say_bye();
  loop_.unwatch_readable(child_.pidfd);
  connection_.reset();
  wait_for_end(child_, kEndWait);
  const pid_t pid = child_.pid;
  if (killed()) return std::nullopt;
  return pid;
}

void AgentLink::start() {
  auto [to_child, child_stdin] = unix_socket_pair();
  SpawnOptions spawn_options;
  spawn_options.argv = options_.argv;
  spawn_options.stdin_fd = child_stdin.get();
  spawn_options.stdout_fd = child_stdin.get();
  spawn_options.die_with_parent =
      false;  // at the end of its input it ends its ranks and what they left, which a signal would not let it
  // What nohup or a script ignores for us, it ignores for all.
  spawn_options.kept_ignored.assign(kNoticeSignals.begin(), kNoticeSignals.end());
  child_ = spawn(spawn_options);
  ready_ = false;
  owed_credit_ = 0;
  last_heard_ = real_clock().now();
  last_beat_ = {};
  const int fd = to_child.release();
  connection_ = std::make_unique<Connection>(
      loop_, fd, fd,
      Connection::Handlers{[this](Message message) { on_message(message); },
                           [this](const std::string& problem) { lost(problem.empty() ? how_it_ended() : problem); }});
  loop_.watch_readable(child_.pidfd, [this] {
    connection_->drain();  // its last words; may tell of the loss itself
    if (child_.pid > 0) lost(how_it_ended());
  });
}

void AgentLink::send(const Message& message) {
  if (connection_) connection_->send(message);
}

void AgentLink::on_message(const Message& message) {
  last_heard_ = real_clock().now();
  if (std::holds_alternative<Heartbeat>(message)) return;
  if (const auto* hello = std::get_if<AgentHello>(&message)) {
    if (hello->version != program_version()) {
      return handlers_.on_dead(
          Error(ErrorKind::kEnvironment,
                "the agent is of version " + hello->version + ", this is " + std::string(program_version()),
                options_.host, "install the same gputrain on all hosts"));
    }
    ready_ = true;
    failed_starts_ = 0;
    return handlers_.on_ready();
  }
  handlers_.on_message(message);
}

void AgentLink::return_credit() {
  owed_credit_ += static_cast<int64_t>(connection_->last_frame_bytes());
  if (owed_credit_ < kCreditPortion) return;
  send(Credit{std::exchange(owed_credit_, 0)});
}

void AgentLink::tick(MonotonicTime now) {
  if (child_.pid <= 0) return;
  if (now - last_beat_ >= heartbeat_interval(options_.lease)) {
    last_beat_ = now;
    send(Heartbeat{++heartbeats_});
  }
  const milliseconds limit = ready_ ? options_.lease * 3 / 2 : kHelloWait;
  if (now - last_heard_ <= limit) return;
  connection_->drain();  // perhaps it was this process that did not look
  if (child_.pid > 0 && now - last_heard_ > limit)
    lost("silent for " + format_elapsed(std::chrono::duration<double>(limit).count()));
}

void AgentLink::forgive(std::chrono::nanoseconds pause) {
  last_heard_ += std::chrono::duration_cast<MonotonicTime::duration>(pause);
}

void AgentLink::say_bye() {
  send(Bye{});
}

// Called when the connection or the process has ended, before the process is reaped.
std::string AgentLink::how_it_ended() {
  if (!wait_for_end(child_, kStatusWait)) return "it closed its connection";
  loop_.unwatch_readable(child_.pidfd);
  const ExitStatus status = reap(child_);
  ::close(child_.pidfd);
  child_ = {};
  if (status.signal != 0) return "it was killed by " + signal_name(status.signal);
  return "it exited with " + std::to_string(status.code);
}

// Forgets the process, dead or not.
bool AgentLink::killed() {
  signal_group(child_.pid, SIGKILL);
  const bool ended = wait_for_end(child_, kKillWait);
  if (ended) reap(child_);
  ::close(child_.pidfd);
  child_ = {};
  return ended;
}

void AgentLink::lost(std::string why) {
  if (child_.pid > 0) {
    const std::string left = "; its process " + std::to_string(child_.pid) + " does not die";
    loop_.unwatch_readable(child_.pidfd);
    if (!killed()) why += left;  // its ranks die with it (PDEATHSIG)
  }
  ready_ = false;
  // We may stand in a handler of the connection: it allows its own destruction.
  connection_.reset();
  if (++failed_starts_ > kMaxFailedStarts) {
    return handlers_.on_dead(
        Error(ErrorKind::kEnvironment,
              "the agent could not be started " + std::to_string(kMaxFailedStarts) + " times: " + why, options_.host,
              "try `gputrain agent` there by hand"));
  }
  restart_timer_ = loop_.after(kFirstBackoff * (1 << (failed_starts_ - 1)), [this] {
    try {
      start();
    } catch (const Error& error) {
      handlers_.on_dead(error);
    }
  });
  handlers_.on_lost(why);
}

ProcessSet present_descendants() {
  ProcessSet set;
  for (const pid_t pid : descendants()) set[pid] = process_start_time(pid);
  return set;
}

void end_orphans(const std::vector<pid_t>& agents, const ProcessSet& others) {
  for (const pid_t pid : descendants()) {
    const auto stat = process_stat(pid);
    if (!stat || stat->parent != ::getpid() || std::find(agents.begin(), agents.end(), pid) != agents.end()) continue;
    const auto other = others.find(pid);
    if (other == others.end() || other->second != stat->start_time) ::kill(pid, SIGKILL);
  }
  reap_orphans(agents);
}

}  // namespace gputrain

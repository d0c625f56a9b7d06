// ControllerRun: signals, time, and requests of other processes.
#include <csignal>

#include <unistd.h>

#include "launch/controller_run.h"
#include "sys/process.h"
#include "util/error.h"

namespace gputrain {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kTick{100};
constexpr milliseconds kStall{1000};  // a longer gap between ticks was this process's own

}  // namespace

void ControllerRun::watch_signals() {
  std::vector<int> signals = heeded_notice_signals();
  signals.push_back(SIGCONT);
  if (!is_ignored(SIGTSTP)) signals.push_back(SIGTSTP);
  loop_.watch_signals(signals, [this](int signal_number) { guarded([&] { on_signal(signal_number); }); });
}

void ControllerRun::on_signal(int signal_number) {
  switch (signal_number) {
    case SIGTERM:
    case SIGHUP:
    case SIGUSR1:  // Slurm's --signal=USR1@60
      return stop(StopReason::kPreempted);
    case SIGTSTP:
      return suspend();
    case SIGINT:
      // The second Ctrl-C is for those who do not want to wait, whatever began the stop.
      if (++interrupts_ > 1) return stop_now(stop_reason_);
      return stop(StopReason::kInterrupted);
    default:
      return;  // SIGCONT: suspend() goes on by itself
  }
}

// Ctrl-Z: the ranks stop too, and no deadline passes meanwhile.
void ControllerRun::suspend() {
  for (const auto& agent : agents_) agent->send(Pause{});
  const MonotonicTime before = clock_.now();
  ::kill(::getpid(), SIGSTOP);
  const auto pause = clock_.now() - before;
  if (supervisor_) supervisor_->shift(pause);
  if (max_duration_) *max_duration_ += pause;
  last_tick_ += pause;
  for (const auto& agent : agents_) {
    agent->forgive(pause);
    agent->send(Continue{});
  }
  arm_deadline();
}

void ControllerRun::stop(StopReason reason) {
  if (stop_reason_ != StopReason::kNone || outcome_) return;
  stop_reason_ = reason;
  if (!supervisor_) return stopped_between_attempts(reason);
  const bool saves = supervisor_->state() == Supervisor::State::kRunning;
  supervisor_->stop(reason, clock_.now());  // first: that the journal takes no record must not prevent the save
  if (saves) {
    notice(std::string(to_string(reason)) + ": saving, then stopping" +
           (reason == StopReason::kInterrupted ? " (Ctrl-C again: now, without saving)" : ""));
  }
  pump();
}

void ControllerRun::stop_now(StopReason reason) {
  if (outcome_) return;
  stop_reason_ = reason;
  if (!supervisor_) return stopped_between_attempts(reason);
  supervisor_->kill_now(reason, clock_.now());
  pump();
}

// No process holds anything that is not in a checkpoint.
void ControllerRun::stopped_between_attempts(StopReason reason) {
  AttemptResult result;
  result.kind = AttemptResult::Kind::kStopped;
  result.reason = reason;
  result.saved = true;
  result.step = std::max<int64_t>(0, saved_step_);
  finish(outcome_of(result, std::nullopt, context()));
}

void ControllerRun::tick() {
  loop_.after(kTick, [this] { tick(); });
  guarded([&] {
    const MonotonicTime now = clock_.now();
    if (now - last_tick_ > kStall) {
      for (const auto& agent : agents_) agent->forgive(now - last_tick_);
    }
    last_tick_ = now;
    for (const auto& agent : agents_) agent->tick(now);
    for (const auto& sink : options_.sinks) sink->tick();
    if (max_duration_ && now >= *max_duration_) stop(StopReason::kMaxDuration);
    if (now - last_lock_beat_ < kLockBeat) return;
    last_lock_beat_ = now;
    if (!lock_->beat())
      throw Error(ErrorKind::kOutput, "another run has taken over the output directory", options_.plan.output);
  });
}

void ControllerRun::arm_deadline() {
  loop_.cancel(deadline_timer_);
  const auto deadline = supervisor_ ? supervisor_->deadline() : std::nullopt;
  if (!deadline) return;
  const auto left = std::chrono::ceil<milliseconds>(*deadline - clock_.now());
  deadline_timer_ = loop_.after(std::max(left, milliseconds(0)), [this] {
    if (!supervisor_) return;
    guarded([&] {
      supervisor_->on_time(clock_.now());
      pump();
    });
  });
}

Json ControllerRun::answer(const Json& request) {
  const std::string what = request.value("request", "");
  if (what == "status") return status();
  if (what == "stop") {
    if (request.value("now", false)) {
      stop_now(StopReason::kUserStop);
    } else {
      stop(StopReason::kUserStop);
    }
    return {{"ok", true}};
  }
  return {{"error", "unknown request: " + what}};
}

Json ControllerRun::status() const {
  const OutcomeContext now = context();
  Json status = {{"run_id", now.run_id},
                 {"output", now.output},
                 {"state", supervisor_    ? to_string(supervisor_->state())
                           : attempt_ > 0 ? "recovering"
                                          : "starting"},
                 {"attempt", now.attempt},
                 {"step", now.last_step},
                 {"saved_step", now.saved_step},
                 {"total_steps", supervisor_ ? supervisor_->ready().value("total_steps", int64_t{0}) : 0},
                 {"world_size", options_.plan.launch.world_size},
                 {"restarts", now.restarts},
                 {"started", started_utc_},
                 {"ranks", Json::array()}};
  if (!supervisor_) return status;
  const auto& ranks = supervisor_->ranks();
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const auto& state = ranks[rank];
    const int agent = supervisor_->plan().agent_of(static_cast<int>(rank));
    status["ranks"].push_back({{"rank", rank},
                               {"host", supervisor_->plan().agents[static_cast<size_t>(agent)].host},
                               {"pid", state.pid},
                               {"state", state.exited    ? "exited"
                                         : state.done    ? "done"
                                         : state.ready   ? "ready"
                                         : state.started ? "starting"
                                                         : "waiting"}});
  }
  return status;
}

}  // namespace gputrain

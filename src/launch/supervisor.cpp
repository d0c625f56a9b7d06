#include "launch/supervisor.h"

#include <algorithm>
#include <climits>
#include <type_traits>
#include <utility>

namespace gputrain {
namespace {

constexpr int kOurselves = INT_MIN;  // key of the controller's own failure among the reports

int lost_agent_key(int agent) {
  return -1 - agent;
}

}  // namespace

std::string_view to_string(Supervisor::State state) {
  switch (state) {
    case Supervisor::State::kListening:
    case Supervisor::State::kStarting:
    case Supervisor::State::kReady:
      return "starting";
    case Supervisor::State::kRunning:
      return "running";
    case Supervisor::State::kStopping:
    case Supervisor::State::kReleasing:
    case Supervisor::State::kKilling:
      return "stopping";
    case Supervisor::State::kDone:
      return "done";
  }
  return "done";
}

Supervisor::Supervisor(SupervisorConfig config, MonotonicTime) : config_(std::move(config)) {
  ranks_.resize(static_cast<size_t>(config_.plan.world_size()));
  agent_lost_.resize(config_.plan.agents.size());
  Listen listen;
  listen.attempt = config_.plan.attempt;
  listen.lease_ms = config_.start.lease_ms;
  actions_.push_back(SendAction{config_.plan.agent_of(0), listen});
}

// ---- inputs ----

void Supervisor::on_message(int agent, const Message& message, MonotonicTime now) {
  std::visit(
      [&](const auto& body) {
        using T = std::decay_t<decltype(body)>;
        if constexpr (std::is_same_v<T, AgentNotice>) {
          stop(body.reason, now);
        } else if constexpr (std::is_same_v<T, Listening>) {
          if (body.attempt == config_.plan.attempt && state_ == State::kListening) on_listening(body, now);
        } else if constexpr (std::is_same_v<T, RankStarted> || std::is_same_v<T, RankReady> ||
                             std::is_same_v<T, RankError> || std::is_same_v<T, RankDone> ||
                             std::is_same_v<T, RankExited>) {
          if (body.attempt != config_.plan.attempt || !rank_is_known(body.rank) || state_ == State::kDone) return;
          if (config_.plan.agent_of(body.rank) != agent) return;
          if constexpr (std::is_same_v<T, RankStarted>) {
            auto& rank = ranks_[static_cast<size_t>(body.rank)];
            rank.pid = body.pid;
            rank.started = true;
          }
          if constexpr (std::is_same_v<T, RankReady>) on_ready(body, now);
          if constexpr (std::is_same_v<T, RankError>) on_error(body, now);
          if constexpr (std::is_same_v<T, RankDone>) on_done(body, now);
          if constexpr (std::is_same_v<T, RankExited>) on_exited(body, now);
        }
      },
      message);
}

void Supervisor::on_agent_lost(int agent, const std::string& why, MonotonicTime now) {
  if (state_ == State::kDone || agent_lost_[static_cast<size_t>(agent)]) return;
  agent_lost_[static_cast<size_t>(agent)] = true;
  for (const auto& slot : config_.plan.agents[static_cast<size_t>(agent)].slots) {
    ranks_[static_cast<size_t>(slot.rank)].exited = true;
  }
  if (state_ != State::kKilling && state_ != State::kReleasing) {
    FailureReport& lost = report(lost_agent_key(agent), now);
    lost.host_lost = true;
    lost.host = config_.plan.agents[static_cast<size_t>(agent)].host;
    lost.error = WireError{ErrorKind::kEnvironment, why, lost.host, ""};
    after_failure(now);
  }
  advance(now);
}

void Supervisor::on_ready(const RankReady& ready, MonotonicTime now) {
  ranks_[static_cast<size_t>(ready.rank)].ready = true;
  if (state_ != State::kStarting) return;
  if (ready.rank == 0) {
    ready_ = ready.ready;
    if (ready_.value("complete", false)) {
      already_complete_ = true;
      return kill(now);
    }
  }
  if (first_failure_) return after_failure(now);  // perhaps the last rank that the failure waited for
  if (!all(&RankState::ready)) return;
  state_ = State::kReady;
  actions_.push_back(PrepareAction{});
}

void Supervisor::on_error(const RankError& error, MonotonicTime now) {
  if (state_ == State::kReleasing) return;
  // What every rank reports alike is the failure of the rank that it names.
  const int culprit = rank_is_known(error.error.culprit) ? error.error.culprit : error.rank;
  FailureReport& failure = report(culprit, now);
  if (!failure.error) failure.error = error.error;
  if (!failure.progress && error.rank == culprit) failure.progress = error.progress;
  after_failure(now);
}

void Supervisor::on_done(const RankDone& done, MonotonicTime now) {
  ranks_[static_cast<size_t>(done.rank)].done = true;
  if (done_.is_null() || done.rank == 0) done_ = done.done;
  if (state_ == State::kKilling || state_ == State::kReleasing) return;
  if (done.done.value("outcome", "") == "stopped" && reason_ == StopReason::kNone) {
    // A rank was asked behind our back (SIGTERM to its pid): all of them stop at the same step by their vote.
    const StopReason told = stop_reason_from(done.done.value("reason", ""));
    stop(told == StopReason::kNone ? StopReason::kPreempted : told, now);
  }
  advance(now);
}

void Supervisor::on_exited(const RankExited& exited, MonotonicTime now) {
  auto& rank = ranks_[static_cast<size_t>(exited.rank)];
  rank.exited = true;
  if (exited.pid > 0) rank.pid = exited.pid;
  if (released_ || already_complete_) return advance(now);
  if (!exited.killed_by_us || reports_.count(exited.rank) != 0) {
    FailureReport& failure = report(exited.rank, now);
    failure.exited = exited;
    if (!failure.progress) failure.progress = exited.progress;
    after_failure(now);
  } else if (state_ == State::kStopping) {
    kill(now);  // the agent's own deadline: this rank did not stop within grace
  } else if (state_ != State::kKilling) {
    FailureReport& failure = report(exited.rank, now);
    failure.exited = exited;
    failure.progress = exited.progress;
    failure.host_lost = true;
    failure.error =
        WireError{ErrorKind::kEnvironment, "the agent ended its ranks: it heard nothing for a lease", failure.host, ""};
    after_failure(now);
  }
  advance(now);
}

void Supervisor::on_time(MonotonicTime now) {
  if (!deadline_ || now < *deadline_ || state_ == State::kDone) return;
  if (state_ == State::kKilling) return finish();
  kill(now);
}

void Supervisor::stop(StopReason reason, MonotonicTime now) {
  if (state_ == State::kDone || state_ == State::kReleasing || reason_ != StopReason::kNone) return;
  reason_ = reason;
  if (state_ == State::kKilling) return;
  if (before_go() || first_failure_) return kill(now);  // nothing was trained, or nothing can be saved any more
  send_all(Stop{config_.plan.attempt, reason, config_.grace.count()});
  state_ = State::kStopping;
  deadline_ = now + config_.grace + kStopSlack;
}

void Supervisor::kill_now(StopReason reason, MonotonicTime now) {
  if (state_ == State::kDone || state_ == State::kReleasing) return;
  reason_ = reason;
  if (state_ != State::kKilling) kill(now);
}

void Supervisor::go(MonotonicTime) {
  if (state_ != State::kReady) return;
  send_all(Go{config_.plan.attempt});
  went_ = true;
  state_ = State::kRunning;
}

void Supervisor::fail(const Error& error, MonotonicTime now) {
  if (state_ == State::kDone || reports_.count(kOurselves) != 0) return;
  FailureReport& failure = report(kOurselves, now);
  failure.error = WireError{error.kind, error.message, error.where, error.hint};
  if (state_ != State::kKilling) kill(now);
}

// ---- transitions ----

void Supervisor::send_all(const Message& message) {
  for (size_t agent = 0; agent < agent_lost_.size(); ++agent) {
    if (!agent_lost_[agent]) actions_.push_back(SendAction{static_cast<int>(agent), message});
  }
}

void Supervisor::on_listening(const Listening& listening, MonotonicTime now) {
  if (!listening.problem.empty()) {
    return fail(
        Error(ErrorKind::kEnvironment, "no port for the store on " + listening.address + ": " + listening.problem),
        now);
  }
  send_start(listening);
}

void Supervisor::send_start(const Listening& listening) {
  state_ = State::kStarting;
  for (size_t agent = 0; agent < agent_lost_.size(); ++agent) {
    Start start = config_.start;
    start.attempt = config_.plan.attempt;
    start.world_size = config_.plan.world_size();
    start.store_address = listening.address;
    start.store_port = listening.port;
    start.slots = config_.plan.agents[agent].slots;
    start.group_rank = static_cast<int>(agent);
    actions_.push_back(SendAction{static_cast<int>(agent), std::move(start)});
  }
}

FailureReport& Supervisor::report(int rank, MonotonicTime now) {
  auto [found, added] = reports_.try_emplace(rank);
  if (added) {
    found->second.at = now;
    found->second.rank = std::max(rank, -1);
    if (rank_is_known(rank)) {
      found->second.host = config_.plan.agents[static_cast<size_t>(config_.plan.agent_of(rank))].host;
      found->second.before_ready = !ranks_[static_cast<size_t>(rank)].ready;
    }
  }
  if (!first_failure_) first_failure_ = now;
  return found->second;
}

std::vector<FailureReport> Supervisor::reports() const {
  std::vector<FailureReport> list;
  list.reserve(reports_.size());
  for (const auto& [key, failure] : reports_) list.push_back(failure);
  return list;
}

bool Supervisor::before_go() const {
  return state_ == State::kListening || state_ == State::kStarting || state_ == State::kReady;
}

void Supervisor::after_failure(MonotonicTime now) {
  if (state_ == State::kKilling || state_ == State::kDone) return;
  if (!worth_waiting(now)) return kill(now);
  const MonotonicTime until = *first_failure_ + kCulpritWait;
  deadline_ = deadline_ ? std::min(*deadline_, until) : until;
}

// Whether a report still to come could change who is blamed, or belongs to the same error.
bool Supervisor::worth_waiting(MonotonicTime now) const {
  if (now >= *first_failure_ + kCulpritWait) return false;
  for (const auto& [key, failure] : reports_) {
    const auto its_class = classify(failure);
    if (its_class == FailureClass::kError && before_go()) continue;
    if (its_class != FailureClass::kPeerLost) return false;
  }
  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    const bool heard =
        reports_.count(static_cast<int>(rank)) != 0 || ranks_[rank].exited || (before_go() && ranks_[rank].ready);
    if (!heard) return true;
  }
  return false;
}

void Supervisor::kill(MonotonicTime now) {
  if (state_ == State::kListening) {
    for (auto& rank : ranks_) rank.exited = true;  // no Start was sent: there is no process
  }
  send_all(Kill{config_.plan.attempt});
  state_ = State::kKilling;
  deadline_ = now + kKillWait;
  advance(now);
}

void Supervisor::advance(MonotonicTime now) {
  if (state_ == State::kDone) return;
  if ((state_ == State::kRunning || state_ == State::kStopping) && all(&RankState::done) && reports_.empty()) {
    send_all(Release{config_.plan.attempt});
    released_ = true;
    state_ = State::kReleasing;
    deadline_ = now + kReleaseWait;
  }
  if ((state_ == State::kReleasing || state_ == State::kKilling) && all(&RankState::exited)) finish();
}

bool Supervisor::all(bool RankState::*member) const {
  return std::all_of(ranks_.begin(), ranks_.end(), [&](const RankState& rank) { return rank.*member; });
}

// ---- outputs ----

std::vector<SupervisorAction> Supervisor::take_actions() {
  return std::exchange(actions_, {});
}

std::optional<MonotonicTime> Supervisor::deadline() const {
  return state_ == State::kDone ? std::nullopt : deadline_;
}

void Supervisor::shift(std::chrono::nanoseconds pause) {
  const auto by = std::chrono::duration_cast<MonotonicTime::duration>(pause);
  if (deadline_) *deadline_ += by;
  if (first_failure_) *first_failure_ += by;
}

int64_t Supervisor::start_step() const {
  return ready_.value("step", int64_t{0});
}

void Supervisor::finish() {
  state_ = State::kDone;
  actions_.push_back(FinishAction{result()});
}

AttemptResult Supervisor::result() const {
  AttemptResult result;
  result.went = went_;
  result.reason = reason_;
  for (const auto& rank : ranks_) {
    if (!rank.exited && rank.pid > 0) result.unkillable.push_back(rank.pid);
  }
  if (already_complete_) {
    result.kind = AttemptResult::Kind::kAlreadyComplete;
    result.step = start_step();
    result.stopped_early = ready_.value("stopped_early", "");
    return result;
  }
  const auto failures = reports();
  if (!released_ && std::any_of(failures.begin(), failures.end(),
                                [](const auto& failure) { return classify(failure).has_value(); })) {
    result.verdict = judge(failures, static_cast<int>(ranks_.size()));
  }
  if (reason_ != StopReason::kNone) {
    stopped(result);
  } else if (released_) {
    result.kind = AttemptResult::Kind::kComplete;
    result.saved = true;
    result.step = done_.value("step", int64_t{0});
    completed(result);
  } else {
    GP_CHECK(result.verdict.has_value(), "an attempt ended without success, stop or failure");
    result.kind = AttemptResult::Kind::kFailed;
  }
  return result;
}

void Supervisor::stopped(AttemptResult& result) const {
  result.kind = AttemptResult::Kind::kStopped;
  if (done_.is_null()) {
    result.step = start_step();
    result.saved = !went_;  // before Go there was nothing new to save
    return;
  }
  result.step = done_.value("step", int64_t{0});
  result.saved = done_.value("saved_step", int64_t{-1}) >= result.step || result.step <= start_step();
  // The stop came when the last step was done already.
  if (released_ && done_.value("outcome", "") == "complete") {
    result.kind = AttemptResult::Kind::kComplete;
    result.saved = true;
    completed(result);
  }
}

void Supervisor::completed(AttemptResult& result) const {
  if (done_.contains("final")) result.final = done_["final"];
  result.stopped_early = done_.value("stopped_early", "");
}

}  // namespace gputrain

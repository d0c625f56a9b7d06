#pragma once
// One attempt as a state machine: messages of agents, lost agents, stop intents and time go in, actions come out. Pure:
// it owns no file, process or clock, so that every race can be tested with invented time.
//
//   listening -> starting -> ready -> running -> releasing -> done
//                    |          |        |   \-> stopping -/
//                    \----------+--------+-----> killing -> done
//
// The first failure of any rank kills all ranks on all hosts at once. Only while nothing but lost peers (victims) is
// known, up to 500 ms are given to the culprit's own report; before Go, typed errors wait as long for the other ranks',
// so that one error is reported once for all ranks that have it.
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "launch/attempt_plan.h"
#include "launch/verdict.h"
#include "sys/clock.h"
#include "wire/messages.h"

namespace gputrain {

inline constexpr std::chrono::milliseconds kCulpritWait{500};    // from the first victim's report
inline constexpr std::chrono::milliseconds kKillWait{10000};     // from Kill to giving up on unkillable processes
inline constexpr std::chrono::milliseconds kReleaseWait{10000};  // from Release to the last exit

struct SupervisorConfig {
  AttemptPlan plan;
  std::chrono::milliseconds grace{30000};
  Start start;  // attempt, run id, resume, plan, worker; slots and store are filled in for each agent
};

struct AttemptResult {
  enum class Kind { kComplete, kAlreadyComplete, kStopped, kFailed };
  Kind kind = Kind::kComplete;
  StopReason reason = StopReason::kNone;  // a stop was asked (also when a failure came first)
  bool went = false;                      // Go was sent
  bool saved = false;                     // kStopped: nothing that was trained is lost
  int64_t step = 0;                       // kComplete, kStopped: global batches finished
  Json final = Json::object();            // kComplete: metrics
  std::string stopped_early;              // kComplete, kAlreadyComplete: why before the planned end; "" = it is not
  std::optional<Verdict> verdict;         // kFailed; kStopped when a failure prevented the save
  std::vector<int> unkillable;            // pids that outlived kKillWait
};

struct SendAction {
  int agent = 0;
  Message message;
};
struct PrepareAction {};  // all ranks are ready: write the start event, then call go() (or fail())
struct FinishAction {
  AttemptResult result;
};
using SupervisorAction = std::variant<SendAction, PrepareAction, FinishAction>;

class Supervisor {
 public:
  enum class State { kListening, kStarting, kReady, kRunning, kStopping, kReleasing, kKilling, kDone };

  Supervisor(SupervisorConfig config, MonotonicTime now);

  // Inputs. Messages of other attempts, and those that mean nothing to an attempt (records, heartbeats), are ignored.
  void on_message(int agent, const Message& message, MonotonicTime now);
  void on_agent_lost(int agent, const std::string& why, MonotonicTime now);
  void on_time(MonotonicTime now);
  void stop(StopReason reason, MonotonicTime now);      // orderly; before Go there is nothing to save, so it kills
  void kill_now(StopReason reason, MonotonicTime now);  // without saving
  void go(MonotonicTime now);                           // answer to PrepareAction
  void fail(const Error& error, MonotonicTime now);     // the controller's own failure: nothing can go on

  // Outputs.
  std::vector<SupervisorAction> take_actions();
  std::optional<MonotonicTime> deadline() const;  // when on_time() wants to be called
  // The process stood still (SIGTSTP) for that long: deadlines move.
  void shift(std::chrono::nanoseconds pause);

  State state() const { return state_; }
  const AttemptPlan& plan() const { return config_.plan; }
  // What rank 0 said when it was ready (an empty object before).
  const Json& ready() const { return ready_; }
  int64_t start_step() const;
  struct RankState {
    int pid = 0;
    bool started = false, ready = false, done = false, exited = false;
  };
  const std::vector<RankState>& ranks() const { return ranks_; }

 private:
  void send_all(const Message& message);
  void on_listening(const Listening& listening, MonotonicTime now);
  void send_start(const Listening& listening);
  void on_ready(const RankReady& ready, MonotonicTime now);
  void on_done(const RankDone& done, MonotonicTime now);
  void on_exited(const RankExited& exited, MonotonicTime now);
  void on_error(const RankError& error, MonotonicTime now);
  FailureReport& report(int rank, MonotonicTime now);
  std::vector<FailureReport> reports() const;
  bool rank_is_known(int rank) const { return rank >= 0 && rank < static_cast<int>(ranks_.size()); }
  void after_failure(MonotonicTime now);
  bool worth_waiting(MonotonicTime now) const;
  bool before_go() const;
  void kill(MonotonicTime now);
  void advance(MonotonicTime now);
  void finish();
  AttemptResult result() const;
  void stopped(AttemptResult& result) const;
  void completed(AttemptResult& result) const;
  bool all(bool RankState::*member) const;

  SupervisorConfig config_;
  State state_ = State::kListening;
  std::vector<RankState> ranks_;
  std::vector<bool> agent_lost_;
  Json ready_ = Json::object();
  Json done_;  // rank 0's, or the first
  StopReason reason_ = StopReason::kNone;
  bool went_ = false, released_ = false, already_complete_ = false;
  std::map<int, FailureReport> reports_;  // by rank; lost agents at -1 - agent
  std::optional<MonotonicTime> first_failure_;
  std::optional<MonotonicTime> deadline_;
  std::vector<SupervisorAction> actions_;
};

std::string_view to_string(Supervisor::State state);

}  // namespace gputrain

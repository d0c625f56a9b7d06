#pragma once
// The controller at work: event loop, agents, one Supervisor after another, records, signals, control socket. See
// controller.h.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launch/agent_link.h"
#include "launch/background.h"
#include "launch/control_socket.h"
#include "launch/controller.h"
#include "launch/history.h"
#include "launch/lock.h"
#include "launch/outcome.h"
#include "launch/restart_policy.h"
#include "launch/run_files.h"
#include "launch/supervisor.h"
#include "sys/event_loop.h"

namespace gputrain {

class ControllerRun {
 public:
  // Takes the lock, reads the history, starts the agents. Throws Error.
  explicit ControllerRun(const ControllerOptions& options);
  ~ControllerRun();
  Outcome run();

 private:
  struct HeldRecord {
    int rank;
    std::string text;
  };

  // agents (controller_run.cpp)
  void start_agents();
  void end_agents();
  void on_agent_ready();
  void on_agent_message(int agent, const Message& message);
  void on_agent_lost(int agent, const std::string& why);
  void begin_attempt();
  void pump();
  void prepare();
  void attempt_ended(const AttemptResult& result);
  void after_failure(const AttemptResult& result, const RestartDecision& decision);
  void finish(Outcome outcome);
  void fail(const Error& error);
  // What a callback throws is the end of the run, never of the loop.
  template <class Action>
  void guarded(Action action) {
    try {
      action();
    } catch (const Error& error) {
      fail(error);
    } catch (const std::exception& problem) {
      fail(Error(ErrorKind::kInternal, problem.what(), "controller"));
    }
  }

  // records and people (controller_records.cpp)
  void take_record(const RankRecord& record);
  Journal* journal() { return writing_start_ ? nullptr : files_->journal(); }
  std::string written(const std::string& record);
  void emit(const std::string& line, const std::string& kind);
  void emit_json(const Json& record);
  void note_checkpoint(const std::string& line);
  void sync_for(int agent, const RankSync& sync);
  void notice(const std::string& text);
  void write_start(bool set_up_failed, std::function<void()> then);
  void after_start(const std::string& line, bool set_up_failed);
  Json start_record(bool set_up_failed) const;
  Json failure_record(const Verdict& verdict, const RestartDecision& decision, const std::string& text) const;
  OutcomeContext context() const;

  // time, signals, requests (controller_events.cpp)
  void watch_signals();
  void on_signal(int signal_number);
  void suspend();
  void stop(StopReason reason);
  void stop_now(StopReason reason);
  void stopped_between_attempts(StopReason reason);
  void tick();
  void arm_deadline();
  Json answer(const Json& request);
  Json status() const;

  const ControllerOptions& options_;
  Clock& clock_ = real_clock();
  MonotonicTime started_ = clock_.now();
  std::string started_utc_ = utc_timestamp(clock_.unix_micros());
  EventLoop loop_;
  RunHistory history_;
  ProcessSet others_ = present_descendants();  // children of the shell that became this process
  std::unique_ptr<OutputLock> lock_;
  std::unique_ptr<RunFiles> files_;
  std::unique_ptr<RestartPolicy> policy_;
  std::unique_ptr<ControlSocket> control_;
  std::unique_ptr<Background> background_;
  std::vector<std::unique_ptr<AgentLink>> agents_;
  std::unique_ptr<Supervisor> supervisor_;
  bool pumping_ = false;
  bool told_unwritten_ = false;         // that records are missing: once
  bool writing_start_ = false;          // in the background: the journal is not ours now
  std::optional<AttemptResult> ended_;  // meanwhile
  int interrupts_ = 0;                  // Ctrl-C so far

  Json plan_json_;
  Json spec_changes_ = Json::array();  // for the first start event
  ResumeRequest resume_;
  int attempt_ = 0;
  int64_t saved_step_ = -1;
  std::string newest_step_line_;
  std::vector<HeldRecord> held_records_;  // came before the start event
  std::vector<std::string> held_notices_;
  std::optional<MonotonicTime> max_duration_;
  StopReason stop_reason_ = StopReason::kNone;
  MonotonicTime last_tick_ = clock_.now();
  MonotonicTime last_lock_beat_ = clock_.now();
  EventLoop::TimerId deadline_timer_ = 0;
  std::optional<Outcome> outcome_;
};

}  // namespace gputrain

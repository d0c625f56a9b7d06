#include "launch/controller_run.h"

#include <random>
#include <utility>

#include "sys/fs.h"
#include "sys/process.h"
#include "util/error.h"
#include "util/text.h"

namespace gputrain {
namespace {

std::string new_run_id() {
  std::random_device random;
  char digits[24];
  std::snprintf(digits, sizeof digits, "%08x%08x", random(), random());
  return digits;
}

}  // namespace

ControllerRun::ControllerRun(const ControllerOptions& options)
    : options_(options), plan_json_(to_json(options.plan)), resume_(options.resume) {
  ignore_sigpipe();
  const std::string& output = options_.plan.output;
  history_ = read_history(output);
  if (history_.run_id.empty()) history_.run_id = new_run_id();
  LockOptions lock;
  lock.output = output;
  lock.self.run_id = history_.run_id;
  if (!options_.control_directory.empty()) lock.self.socket = control_socket_path(options_.control_directory, output);
  lock.notice = [this](const std::string& text) { notice(text); };
  lock_ = OutputLock::acquire(lock);

  // The dead holder of the lock may have used a number beyond the journal: its attempt never reached the start event.
  attempt_ = history_.last_attempt;
  if (lock_->predecessor()) attempt_ = std::max(attempt_, lock_->predecessor()->attempt);
  const bool anew = history_.plan_hash != plan_hash(plan_json_) || resume_.mode == "never";
  const bool no_retry = options_.plan.smoke || !options_.keep_output;
  policy_ = std::make_unique<RestartPolicy>(no_retry ? 0 : options_.plan.launch.max_restarts,
                                            anew ? FailureRow{} : history_.row);
  files_ = std::make_unique<RunFiles>(real_file_system(), output, clock_);
  spec_changes_ = files_->changes(options_.spec_text);
  if (options_.plan.launch.max_duration) max_duration_ = started_ + *options_.plan.launch.max_duration;
  become_subreaper();
  watch_signals();
  if (!options_.control_directory.empty()) {
    control_ = std::make_unique<ControlSocket>(loop_, lock_->info().socket,
                                               [this](const Json& request) { return answer(request); });
  }
  background_ = std::make_unique<Background>(loop_);
  start_agents();
}

ControllerRun::~ControllerRun() {
  for (const auto& agent : agents_) agent->say_bye();  // all at once, then wait for each
  agents_.clear();
  end_orphans({}, others_);
}

Outcome ControllerRun::run() {
  loop_.after(std::chrono::milliseconds(100), [this] { tick(); });
  if (!outcome_) loop_.run();
  end_agents();
  for (const auto& sink : options_.sinks) sink->close();
  return std::move(*outcome_);
}

void ControllerRun::fail(const Error& error) {
  if (outcome_) return;
  // A second error, after the attempt's own end: nothing is left that could carry it further.
  if (!supervisor_ || supervisor_->state() == Supervisor::State::kDone) return finish(outcome_of(error, context()));
  supervisor_->fail(error, clock_.now());
  pump();
}

// ---- agents ----

void ControllerRun::start_agents() {
  const auto& launch = options_.plan.launch;
  for (size_t index = 0; index < launch.hosts.size(); ++index) {
    AgentLinkOptions link;
    link.host = launch.hosts[index].name;
    link.argv = {options_.agent_program, "agent"};
    if (!options_.worker_program.empty()) link.argv.insert(link.argv.end(), {"--worker", options_.worker_program});
    link.lease = launch.lease;
    const int agent = static_cast<int>(index);
    agents_.push_back(std::make_unique<AgentLink>(
        loop_, link,
        AgentLink::Handlers{
            [this] { guarded([&] { on_agent_ready(); }); },
            [this, agent](const Message& message) { guarded([&] { on_agent_message(agent, message); }); },
            [this, agent](const std::string& why) { guarded([&] { on_agent_lost(agent, why); }); },
            [this](const Error& error) { fail(error); }}));
  }
}

void ControllerRun::end_agents() {
  for (const auto& agent : agents_) agent->say_bye();  // all at once, then wait for each
  for (size_t index = 0; index < agents_.size(); ++index) {
    const auto left = agents_[index]->end();
    if (!left) continue;
    for (const auto& sink : options_.sinks) {
      sink->notice("the agent on " + options_.plan.launch.hosts[index].name + " (pid " + std::to_string(*left) +
                   ") does not die: left to the kernel");
    }
  }
}

void ControllerRun::on_agent_ready() {
  if (supervisor_ || outcome_) return;
  for (const auto& agent : agents_) {
    if (!agent->ready()) return;
  }
  begin_attempt();
}

void ControllerRun::on_agent_message(int agent, const Message& message) {
  if (const auto* record = std::get_if<RankRecord>(&message)) {
    agents_[static_cast<size_t>(agent)]->return_credit();
    return take_record(*record);
  }
  if (const auto* sync = std::get_if<RankSync>(&message)) return sync_for(agent, *sync);
  if (const auto* told = std::get_if<AgentNotice>(&message)) return stop(told->reason);
  if (!supervisor_) return;
  supervisor_->on_message(agent, message, clock_.now());
  pump();
}

void ControllerRun::on_agent_lost(int agent, const std::string& why) {
  std::vector<pid_t> living;
  for (const auto& link : agents_) {
    if (link->pid() > 0) living.push_back(link->pid());
  }
  end_orphans(living, others_);
  if (outcome_) return;
  if (!supervisor_) {
    return notice("the agent on " + options_.plan.launch.hosts[static_cast<size_t>(agent)].name + " was lost: " + why +
                  "; starting a new one");
  }
  supervisor_->on_agent_lost(agent, why, clock_.now());
  pump();
}

// ---- attempts ----

void ControllerRun::begin_attempt() {
  if (outcome_) return;
  ++attempt_;
  if (!lock_->set_attempt(attempt_)) {
    throw Error(ErrorKind::kOutput, "another run has taken over the output directory", options_.plan.output);
  }
  held_records_.clear();
  SupervisorConfig config;
  config.plan = plan_attempt(options_.plan.launch, attempt_);
  config.grace = options_.plan.launch.grace;
  config.start.run_id = history_.run_id;
  config.start.resume = resume_;
  config.start.plan = plan_json_;
  config.start.worker = options_.worker_program;
  config.start.lease_ms = options_.plan.launch.lease.count();
  supervisor_ = std::make_unique<Supervisor>(std::move(config), clock_.now());
  pump();
}

// Carries out what the supervisor wants; its inputs during that (go, fail) only add to the list.
void ControllerRun::pump() {
  if (pumping_ || !supervisor_) return;
  std::optional<AttemptResult> ended;
  std::optional<Error> problem;  // of the first message that could not be sent; the others still are
  {
    pumping_ = true;
    const std::unique_ptr<bool, void (*)(bool*)> reset(&pumping_, [](bool* pumping) { *pumping = false; });
    for (auto actions = supervisor_->take_actions(); !actions.empty(); actions = supervisor_->take_actions()) {
      for (const auto& action : actions) {
        if (const auto* send = std::get_if<SendAction>(&action)) {
          try {
            agents_[static_cast<size_t>(send->agent)]->send(send->message);
          } catch (const Error& error) {
            if (!problem) problem = error;
          }
        } else if (const auto* finish = std::get_if<FinishAction>(&action)) {
          ended = finish->result;
        } else {
          prepare();
        }
      }
    }
  }
  arm_deadline();
  if (ended) return guarded([&] { attempt_ended(*ended); });
  if (problem) fail(*problem);
}

void ControllerRun::prepare() {
  write_start(false, [this] {
    if (!supervisor_) return;
    supervisor_->go(clock_.now());
    // From now on the run's own checkpoints are the place to continue from.
    if (resume_.mode == "never") resume_ = {};
    pump();
  });
}

void ControllerRun::attempt_ended(const AttemptResult& result) {
  if (writing_start_) {
    ended_ = result;  // goes on when the start event is written
    return;
  }
  if (result.kind != AttemptResult::Kind::kFailed) return finish(outcome_of(result, std::nullopt, context()));
  const RestartDecision decision = policy_->failure(*result.verdict);
  // A failure before the first start event must be remembered too, or a relaunch would count anew.
  if (decision.restart && journal() == nullptr) {
    return write_start(true, [this, result, decision] { after_failure(result, decision); });
  }
  after_failure(result, decision);
}

void ControllerRun::after_failure(const AttemptResult& result, const RestartDecision& decision) {
  std::string text = describe(*result.verdict);
  if (result.verdict->error) text += ": " + result.verdict->error->message;
  if (decision.restart) {
    text += saved_step_ >= 0 ? "; restarting from step " + std::to_string(saved_step_) : "; restarting from the start";
    text += ", restart " + std::to_string(decision.restart_number) + " of " + std::to_string(policy_->max_restarts());
  }
  if (journal() != nullptr) emit_json(failure_record(*result.verdict, decision, text));
  if (!decision.restart) return finish(outcome_of(result, decision, context()));
  for (const auto& sink : options_.sinks) sink->notice(text);
  supervisor_.reset();
  if (stop_reason_ != StopReason::kNone) return stopped_between_attempts(stop_reason_);
  on_agent_ready();
}

void ControllerRun::finish(Outcome outcome) {
  if (outcome_) return;
  supervisor_.reset();
  outcome_ = std::move(outcome);
  loop_.stop();
  const auto attempt = [this](const auto& write) {
    try {
      write();
    } catch (const std::exception& problem) {
      const auto* typed = dynamic_cast<const Error*>(&problem);
      const Error error = typed ? *typed : Error(ErrorKind::kInternal, problem.what(), "controller");
      // A disk that is full says so at every file: once is enough.
      const auto ended_by = [&](ErrorKind kind) { return outcome_->exit_code == static_cast<int>(exit_code(kind)); };
      if (error.kind == ErrorKind::kOutput && (ended_by(ErrorKind::kOutput) || ended_by(ErrorKind::kCheckpoint)))
        return;
      outcome_->summary += "gputrain: error: " + error.render() + "\n";
      if (outcome_->exit_code == 0) outcome_ = outcome_of(error, context());
    }
  };
  attempt([&] { background_->drain(); });
  const auto write_result = [&] {
    files_->write_result(outcome_->result);
    outcome_->result_written = true;
  };
  if (journal() == nullptr) {
    // Stopped before the start event: the result of the launch before says "done" where this one must run again.
    if (files_ && stop_reason_ != StopReason::kNone && history_.last_attempt > 0) attempt(write_result);
    return;
  }
  // Each for itself: on a full disk the small file may still find room.
  attempt([&] {
    lock_->keep_directories();
    Json end = {{"kind", "end"}};
    for (const char* key : {"outcome", "exit_code", "resumable", "step", "saved_step"})
      end[key] = outcome_->result[key];
    if (outcome_->result.contains("stopped_early")) end["stopped_early"] = outcome_->result["stopped_early"];
    emit_json(end);
    journal()->sync();
  });
  attempt(write_result);
}

}  // namespace gputrain

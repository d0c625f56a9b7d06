// ControllerRun: what is recorded and what people see.
#include <utility>

#include "launch/controller_run.h"
#include "monitor/record.h"
#include "util/error.h"
#include "util/foreign_json.h"

namespace gputrain {
namespace {

constexpr size_t kMaxHeldRecords = 1000;

int64_t step_of(const std::string& line) {
  const Json json = parse_foreign_json(line);
  return json.is_object() && json.contains("step") && json["step"].is_number_integer() ? json["step"].get<int64_t>()
                                                                                       : 0;
}

std::string resume_word(const ResumeRequest& resume) {
  return resume.mode == "path" ? resume.path : resume.mode;
}

}  // namespace

void ControllerRun::take_record(const RankRecord& record) {
  if (!supervisor_ || record.attempt != attempt_) return;
  if (supervisor_->state() < Supervisor::State::kRunning || journal() == nullptr) {
    if (held_records_.size() < kMaxHeldRecords) held_records_.push_back({record.rank, record.record});
    return;
  }
  emit(written(record.record), record_kind(record.record));
}

// The journal's line. While the ranks save for a stop, a full disk costs records, not the save: the text as it came.
std::string ControllerRun::written(const std::string& record) {
  try {
    return journal()->append_text(record, attempt_);
  } catch (const Error& error) {
    const bool stopping = supervisor_ && (supervisor_->state() == Supervisor::State::kStopping ||
                                          supervisor_->state() == Supervisor::State::kReleasing);
    if (!stopping) throw;
    if (!std::exchange(told_unwritten_, true)) {
      for (const auto& sink : options_.sinks) sink->notice(error.message + "; stopping without a record of it");
    }
    return record;
  }
}

// To the sinks, and to what this object derives from records.
void ControllerRun::emit(const std::string& line, const std::string& kind) {
  if (kind == "step") newest_step_line_ = line;
  if (kind == "checkpoint") note_checkpoint(line);
  for (const auto& sink : options_.sinks) sink->record(kind.empty() ? "warning" : kind, line);
}

void ControllerRun::emit_json(const Json& record) {
  emit(written(dump_line(record)), record.value("kind", ""));
}

void ControllerRun::note_checkpoint(const std::string& line) {
  const CheckpointRecord checkpoint = checkpoint_record_from_json(parse_foreign_json(line));
  saved_step_ = checkpoint.step;
  policy_->checkpoint(checkpoint.step);
  // After --resume PATH newer checkpoints of another history may lie beside: a restart continues from what this launch
  // saved.
  if (resume_.mode != "path" || checkpoint.path.empty()) return;
  resume_.path = checkpoint.path.front() == '/' ? checkpoint.path : options_.plan.output + "/" + checkpoint.path;
}

void ControllerRun::sync_for(int agent, const RankSync& sync) {
  const Synced answer{sync.attempt, sync.rank, sync.id};
  if (journal() == nullptr) return agents_[static_cast<size_t>(agent)]->send(answer);
  Journal* const synced = journal();
  background_->post([synced] { synced->sync(); },
                    [this, agent, answer](const Background::Problem& problem) {
                      if (problem) return fail(*problem);
                      guarded([&] { agents_[static_cast<size_t>(agent)]->send(answer); });
                    });
}

void ControllerRun::notice(const std::string& text) {
  for (const auto& sink : options_.sinks) sink->notice(text);
  if (files_ && journal() != nullptr) {
    emit_json({{"kind", "notice"}, {"text", text}});
  } else {
    held_notices_.push_back(text);
  }
}

void ControllerRun::write_start(bool set_up_failed, std::function<void()> then) {
  StartFiles files;
  files.spec_text = options_.spec_text;
  files.plan = plan_json_;
  files.move_checkpoints_aside = resume_.mode == "never" && !set_up_failed;
  Json start = start_record(set_up_failed);
  writing_start_ = true;
  auto line = std::make_shared<std::string>();
  background_->post([this, files, start = std::move(start), attempt = attempt_,
                     line] { *line = files_->begin(files, start, attempt); },
                    [this, set_up_failed, line, then = std::move(then)](const Background::Problem& problem) {
                      writing_start_ = false;
                      if (!problem) guarded([&] { after_start(*line, set_up_failed); });
                      if (problem && !ended_) fail(*problem);
                      if (outcome_) return;
                      if (const auto ended = std::exchange(ended_, std::nullopt))
                        return guarded([&] { attempt_ended(*ended); });
                      if (!problem) guarded(then);
                    });
}

// The start event is on disk: what was held back can follow it.
void ControllerRun::after_start(const std::string& line, bool set_up_failed) {
  lock_->keep_directories();
  if (!set_up_failed) emit(line, "start");
  for (const auto& text : std::exchange(held_notices_, {})) emit_json({{"kind", "notice"}, {"text", text}});
  if (set_up_failed || !supervisor_) return;
  spec_changes_ = Json::array();  // told, on the console too
  const Json& ready = supervisor_->ready();
  const int64_t step = supervisor_->start_step();
  if (step > 0) {
    saved_step_ = step;
    policy_->checkpoint(step);
  }
  const int64_t expected = std::exchange(history_.saved_step, -1);
  if (step == 0 && resume_.mode == "auto" && expected > 0) {
    notice("warning: training starts over: events.jsonl tells of a checkpoint at step " + std::to_string(expected) +
           ", and " + options_.plan.output + "/checkpoints has none that can be used");
  }
  if (ready.contains("rejected")) {
    for (const auto& rejected : ready["rejected"]) {
      notice("checkpoint " + rejected.value("checkpoint", "") + " was not used: " + rejected.value("why", ""));
    }
  }
  if (ready.contains("notices")) {
    for (const auto& text : ready["notices"]) notice(text.get<std::string>());
  }
  for (const auto& held : std::exchange(held_records_, {})) {
    emit(journal()->append_text(held.text, attempt_), record_kind(held.text));
  }
}

Json ControllerRun::start_record(bool set_up_failed) const {
  const RunPlan& plan = options_.plan;
  Json hosts = Json::array();
  for (const auto& host : plan.launch.hosts) hosts.push_back(host.name);
  Json record = {{"kind", "start"},
                 {"run_id", history_.run_id},
                 {"name", plan.name},
                 {"version", program_version()},
                 {"plan_hash", plan_hash(plan_json_)},
                 {"world_size", plan.launch.world_size},
                 {"hosts", hosts},
                 {"resume", resume_word(resume_)}};
  if (!spec_changes_.empty()) record["changes"] = spec_changes_;
  if (set_up_failed) {
    record["set_up_failed"] = true;
    return record;
  }
  const Json& ready = supervisor_->ready();
  record["resumed_step"] = supervisor_->start_step();
  for (const char* key : {"resumed_from", "rejected", "total_steps", "steps_per_epoch", "samples", "parameters",
                          "fingerprint", "model_flops_per_sample", "peak_flops"}) {
    if (ready.contains(key)) record[key] = ready[key];
  }
  return record;
}

Json ControllerRun::failure_record(const Verdict& verdict, const RestartDecision& decision,
                                   const std::string& text) const {
  Json record = {{"kind", "failure"}, {"class", to_string(verdict.failure_class)}};
  record.update(culprit_json(verdict));
  record["error"] = error_json(verdict.error);
  record["step"] = verdict.progress.step;
  record["phase"] = verdict.progress.phase;
  record["cause"] = verdict.cause;
  record["counts"] = verdict.retryable;
  record["victims"] = verdict.victims;
  record["restart"] = decision.restart;
  record["restart_number"] = decision.restart_number;
  record["max_restarts"] = policy_->max_restarts();
  record["log"] = verdict.log_path;
  record["text"] = text;
  return record;
}

OutcomeContext ControllerRun::context() const {
  OutcomeContext context;
  context.run_id = history_.run_id;
  context.output = options_.plan.output;
  context.resume_command = options_.resume_command.empty() ? "gputrain launch " + options_.plan.output + "/spec.yaml"
                                                           : options_.resume_command;
  context.attempt = attempt_;
  context.max_restarts = policy_->max_restarts();
  context.restarts = std::min(policy_->failures(), context.max_restarts);
  // Before the start event what the last launch saved still stands.
  const bool started = !writing_start_ && files_ && files_->journal() != nullptr;
  context.saved_step = started ? saved_step_ : std::max(saved_step_, history_.saved_step);
  context.last_step = newest_step_line_.empty() ? std::max<int64_t>(0, context.saved_step) : step_of(newest_step_line_);
  context.smoke = options_.plan.smoke || !options_.keep_output;
  return context;
}

}  // namespace gputrain

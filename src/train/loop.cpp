#include "train/loop.h"

#include <cmath>
#include <memory>
#include <utility>

#include "util/error.h"
#include "util/text.h"

namespace gputrain {
namespace {

TriggerPlan without_missing(TriggerPlan plan, const Evaluator* evaluator) {
  if (evaluator == nullptr) plan.evaluate = Every{};
  return plan;
}

int64_t samples_in(const std::vector<Batch>& batches) {
  int64_t samples = 0;
  for (const Batch& batch : batches) samples += static_cast<int64_t>(batch.ids.size());
  return samples;
}

int64_t count_in(const std::vector<Batch>& batches, const Objective& objective) {
  int64_t count = 0;
  for (const Batch& batch : batches) count += objective.count(batch.targets);
  return count;
}

// The loader fills this memory again, unless somebody still holds it. The ids stay.
void release(std::vector<Batch>& batches) {
  for (Batch& batch : batches) batch.inputs = batch.targets = at::Tensor();
}

Json to_json(const Metrics& metrics) {
  Json json = Json::object();
  for (const auto& [name, value] : metrics.values) json[name] = json_number(value);
  return json;
}

}  // namespace

Loop::Loop(const Parts& parts, LoopOptions options)
    : parts_(parts),
      options_(std::move(options)),
      triggers_(without_missing(options_.triggers, parts.evaluator), parts.context.clock.now()),
      log_(parts.context.records, {options_.triggers.steps_per_epoch, options_.flops_per_sample, options_.peak_flops},
           parts.context.timer),
      stopping_(options_.early_stopping, parts.state.counters.stale_evaluations, parts.state.counters.stop_best),
      saved_at_(options_.saved_at),
      mark_(parts.context.clock.now()) {}

LoopResult Loop::run() {
  LoopContext& context = parts_.context;
  parts_.loader.seek(counters().epoch, counters().step % options_.triggers.steps_per_epoch);
  parts_.runner.hooks().next_ballot = [this](int64_t step) { return early_ballot(step); };
  context.stop.set_wake([this] { parts_.loader.cancel(); });
  // Also when the run throws: a stop may come from another thread while this loop is being destroyed.
  const std::unique_ptr<StopSource, void (*)(StopSource*)> unwake(&context.stop,
                                                                  [](StopSource* stop) { stop->set_wake({}); });
  const LoopResult result = run_to_end();
  context.marker.enter(Phase::kIdle, counters().step);
  return result;
}

LoopResult Loop::run_to_end() {
  while (!triggers_.finished(counters().step) && !stopping_.due()) {
    const Agreement agreement = agree();
    if (agreement.stop != StopReason::kNone) return end(agreement.stop);
    if (agreement.evaluate_due || agreement.save_due) {
      if (!run_due({agreement.evaluate_due, agreement.save_due}, "every")) return end(agreed_stop());
    } else {
      step(agreement);
    }
  }
  check_anything_learnt();
  // What the last step asks for depends on no clock: every rank knows it.
  const Due due = triggers_.due(position(counters().step), MonotonicTime{});
  if (!run_due(due, "last")) return end(agreed_stop());
  LoopResult result = end(StopReason::kNone);
  if (!triggers_.finished(result.step)) result.stopped_early = stopping_.reason();
  return result;
}

// A scaler that skipped every step of a short run, targets that are all left out: not what anybody calls trained, and
// nothing to save.
void Loop::check_anything_learnt() const {
  const Counters& done = parts_.state.counters;
  if (steps_ > 0 && counted_ == 0) {
    throw Error(ErrorKind::kData,
                "no target of the last " + plural(steps_, "step") + " counts: each is loss.ignore_index",
                "step " + std::to_string(done.step), "look at the targets of data.train and at loss.ignore_index");
  }
  if (!options_.needs_update || done.updates > 0 || done.step == 0) return;
  throw Error(ErrorKind::kNonFinite,
              "no update was made: the loss scaler skipped all " + plural(done.step, "step") + " of this run",
              "step " + std::to_string(done.step),
              "train longer (each skipped step halves the scale), look for NaN or huge values in the data, or use "
              "train.precision bf16 or fp32");
}

MonotonicTime Loop::now() const {
  return is_first() ? parts_.context.clock.now() : MonotonicTime{};
}

Position Loop::position(int64_t step) const {
  return {step, parts_.state.counters.evaluated_at, saved_at_};
}

void Loop::fetch() {
  const MonotonicTime start = now();
  fetched_ = parts_.loader.next_step();
  data_wait_s_ += seconds_between(start, now());
  GP_CHECK(fetched_ || parts_.context.stop.raised(), "the loader ended without a stop");
}

Ballot Loop::ballot(int64_t step) const {
  Ballot ballot;
  ballot.stop = parts_.context.stop.reason();
  if (is_first()) {
    const Due due = triggers_.due(position(step), parts_.context.clock.now());
    ballot.evaluate_due = due.evaluate;
    ballot.save_due = due.save;
  }
  return ballot;
}

// While `step` is being executed: its batches are still in use, so the next ones are only asked for. What counts in
// them may be seen only in themselves: then a vote of its own comes later.
Ballot Loop::early_ballot(int64_t step) {
  Ballot early = ballot(step);
  early.ready = parts_.loader.ready();
  early.samples = parts_.loader.next_samples();
  const std::optional<int64_t> count = parts_.runner.objective().count_of(early.samples, options_.target_shape);
  early.ready = early.ready && count.has_value();
  early.count = count.value_or(0);
  return early;
}

// The last step's vote decides, unless a batch was late on some rank: then all wait for theirs and vote again.
Agreement Loop::agree() {
  parts_.context.marker.enter(Phase::kDataWait, counters().step + 1);
  const std::optional<Agreement> early = std::exchange(early_, std::nullopt);
  if (early && (early->stop != StopReason::kNone || early->evaluate_due || early->save_due || early->ready))
    return *early;
  if (!fetched_) fetch();
  Ballot mine = ballot(counters().step);
  mine.ready = fetched_.has_value();
  mine.samples = fetched_ ? samples_in(*fetched_) : 0;
  mine.count = fetched_ ? count_in(*fetched_, parts_.runner.objective()) : 0;
  return parts_.context.vote.take(mine);
}

void Loop::step(const Agreement& agreement) {
  if (!fetched_) fetch();
  GP_CHECK(fetched_, "a batch that was ready is gone");
  current_ = std::move(*fetched_);
  fetched_.reset();
  const double data_wait_s = std::exchange(data_wait_s_, 0);
  const StepResult result = parts_.runner.run(current_, agreement.count);
  early_ = result.next;
  ++steps_;
  counted_ += agreement.count;
  counters().finish_step(agreement.samples, options_.samples_per_epoch, result.skipped);
  if (parts_.evaluator == nullptr) final_metrics_["loss"] = json_number(result.loss);
  if (parts_.trace != nullptr) trace(result);
  release(current_);
  if (!is_first()) return;
  const MonotonicTime end = now();
  log_.add(seconds_between(std::exchange(mark_, end), end), data_wait_s, agreement.samples);
  if (triggers_.log_due(counters().step, end)) {
    log_.write(parts_.state, result);
    triggers_.logged(end);
  }
}

void Loop::trace(const StepResult& result) {
  TracedStep traced;
  traced.step = counters().step;
  for (const Batch& batch : current_) traced.ids.insert(traced.ids.end(), batch.ids.begin(), batch.ids.end());
  traced.all_reduces = result.all_reduces;
  traced.loss = result.loss;
  parts_.trace->step(traced, parts_.state.parameters());
}

bool Loop::run_due(const Due& due, const std::string& why) {
  std::optional<double> metric;
  bool improved = false;
  if (due.evaluate) {
    broadcast_buffers(*parts_.context.gradients, parts_.state);
    const MonotonicTime start = now();
    const std::optional<Metrics> metrics = parts_.evaluator->run(counters().step);
    if (!metrics) return false;
    report(*metrics, seconds_between(start, now()));
    if (!options_.best_metric.empty()) {
      metric = metrics->judged(options_.best_metric);
      improved = note_best(*metric);
    }
    if (stopping_.enabled()) stopping_.note(metrics->judged(stopping_.metric()));
  }
  // This step was saved as not evaluated: by a stop during its evaluation, or before the clock made one due.
  const bool outdated = due.evaluate && saved_at_ == counters().step;
  const bool last = due.evaluate && stopping_.due();
  if (due.save || improved || outdated || last)
    save(metric, last ? "last" : due.save ? why : improved ? "best" : "evaluated");
  mark_ = now();
  return true;
}

void Loop::report(const Metrics& metrics, double seconds) {
  counters().evaluated_at = counters().step;
  triggers_.evaluated(now());
  final_metrics_ = to_json(metrics);
  if (!is_first()) return;
  EvalRecord record;
  record.step = counters().step;
  record.loss = metrics.at("loss");
  record.metrics = final_metrics_;
  record.metrics.erase("loss");
  record.samples = metrics.samples;
  record.seconds = seconds;
  parts_.context.records.send(gputrain::to_json(record));
}

// Reduced sums are the same bits on every rank, so all decide alike. NaN is never best.
bool Loop::note_best(double value) {
  if (std::isnan(value)) return false;
  std::optional<double>& best = counters().best;
  if (best && !(options_.best_is_larger ? value > *best : value < *best)) return false;
  best = value;
  return true;
}

void Loop::save(std::optional<double> metric, const std::string& why) {
  parts_.context.marker.enter(Phase::kWriting, counters().step);
  broadcast_buffers(*parts_.context.gradients, parts_.state);
  options_.stamp.bucket_layout = parts_.runner.bucket_layout();
  parts_.saver.save(parts_.state, options_.stamp, metric, why);
  saved_at_ = counters().step;
  triggers_.saved(now());
}

StopReason Loop::agreed_stop() {
  Ballot ballot;
  ballot.stop = parts_.context.stop.reason();
  return parts_.context.vote.take(ballot).stop;
}

LoopResult Loop::end(StopReason reason) {
  if (counters().step > 0 && saved_at_ != counters().step) save(std::nullopt, "stop");
  return {reason, counters().step, saved_at_, final_metrics_, ""};
}

}  // namespace gputrain

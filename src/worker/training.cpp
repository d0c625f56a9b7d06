#include "worker/training.h"

#include <filesystem>
#include <utility>

#include "data/transforms.h"
#include "sys/clock.h"
#include "train/batch_norm.h"
#include "train/exactness.h"
#include "train/first_weights.h"
#include "train/parameter_groups.h"
#include "train/precision.h"
#include "util/error.h"
#include "util/log.h"
#include "util/text.h"
#include "worker/evaluation.h"

namespace gputrain {

Training::Training(Foundation base, const Parts& parts, const TraceOptions& trace)
    : base_(std::move(base)),
      parts_(parts),
      loader_(make_loader(*base_.train, base_.plan.data.train_transforms, training_loader_options(base_))),
      total_steps_(total_steps(base_.plan.train, loader_->steps_per_epoch())),
      state_(make_state()) {
  stamp_.identity = identity_of(base_.plan);
  stamp_.data = base_.train->fingerprint();
  stamp_.best_of = measured(base_.plan.checkpoint.keep_best);
  stamp_.stop_of = measured(base_.plan.early_stopping.metric);
  stamp_.exactness = exactness_of(base_.plan, base_.assign.threads, base_.device_name);
  if (!base_.model_file.empty()) stamp_.exactness["model_file"] = base_.model_file;
  load_state();
  if (state_.counters.step < total_steps_) check_micro_batches();
  make_runner(trace);
  Saver::Parts saver{real_file_system(), parts_.records, parts_.marker, real_clock(), base_.assign.rank};
  saver_ = std::make_unique<Saver>(saver, checkpoint_options());
  insight_ = std::make_unique<Insight>(base_, parts_.marker, parts_.records);
}

namespace {

void check_mixable(const MixPlan& plan, const SampleSpec& sample) {
  const auto refuse = [&](const std::string& key, const std::string& wanted) {
    throw Error(ErrorKind::kSpec, key + " mixes " + wanted + ", but a sample is " + describe(sample), key,
                "leave it out");
  };
  if (plan.mixup > 0 && !at::isFloatingType(sample.type)) refuse("data.mixup", "floats");
  if (plan.cutmix > 0 && sample.shape.size() < 3) refuse("data.cutmix", "images [channels, height, width]");
}

}  // namespace

// What a best value is the best of.
Json Training::measured(const std::string& metric) const {
  if (!base_.val || metric.empty()) return nullptr;
  const bool average = base_.plan.train.ema_decay > 0;
  return {{"metric", (average ? "ema_" : "") + metric}, {"data", base_.val->fingerprint()}};
}

void Training::check_micro_batches() const {
  const SampleSpec raw{base_.train->sample_shape(), base_.train->sample_type()};
  const auto pipeline = make_pipeline(base_.plan.data.train_transforms, raw, {});
  check_mixable(base_.plan.mix, pipeline->output());
  check_batch_norm(base_.plan, *base_.model,
                   {.samples = base_.train->size(),
                    .total_steps = total_steps_,
                    .steps_per_epoch = loader_->steps_per_epoch(),
                    .input_shape = pipeline->output().shape,
                    .device = base_.device});
}

TrainState Training::make_state() const {
  const RunPlan& plan = base_.plan;
  const NamedParameters parameters = named_parameters_of(*base_.model);
  return {base_.model, make_grouped_optimizer(plan.optimizer, plan.parameters, parameters),
          GradScaler(needs_grad_scaler(plan.train.precision), base_.device), Counters{},
          plan.train.ema_decay > 0 ? std::make_unique<Ema>(plan.train.ema_decay, parameters) : nullptr};
}

void Training::load_state() {
  const ResumeRequest& wanted = base_.assign.resume;
  const auto load = [&] {
    return load_for_resume(real_file_system(), base_.plan.output + "/checkpoints", wanted.mode, wanted.path);
  };
  const auto begin = [this]() -> std::vector<std::string> {
    if (base_.plan.model.init.empty()) return {};
    const InitReport report = init_model(real_file_system(), *base_.model, base_.plan.model);
    log_line(LogLevel::kInfo, report.loaded_names());
    return report.notices();
  };
  resumed_ = resume(base_.comms, state_, stamp_, load, begin);
}

void Training::make_runner(const TraceOptions& trace) {
  const RunPlan& plan = base_.plan;
  std::vector<std::string> names;
  for (const auto& [name, parameter] : named_parameters_of(*base_.model)) names.push_back(name);
  ReducerOptions reduction;
  reduction.kind = plan.reducer;
  reduction.deterministic = plan.train.deterministic;
  if (resumed_.saved) reduction.layout = resumed_.saved->bucket_layout;
  reduction.on_all_reduce = [this] { parts_.marker.enter_all_reduce(); };
  reducer_ = make_reducer(base_.comms.gradients, state_.parameters(), names, reduction);
  check_warmup();
  schedule_ = std::make_unique<Schedule>(plan.schedule, total_steps_, loader_->steps_per_epoch());
  StepHooks hooks;
  if (!trace.directory.empty()) {
    trace_ = std::make_unique<Trace>(trace.directory, base_.assign.attempt, base_.assign.rank);
    if (trace.gradients) hooks.on_gradients = [this](int64_t step) { trace_->gradients(state_, step); };
  }
  const StepOptions step{.seed = plan.seed,
                         .precision = plan.train.precision,
                         .clip_grad_norm = plan.train.clip_grad_norm,
                         .clip_grad_value = plan.train.clip_grad_value,
                         .mix = plan.mix,
                         .channels_last = plan.train.channels_last,
                         .device = base_.device};
  runner_ = std::make_unique<StepRunner>(
      StepRunner::Parts{state_, *base_.objective, *reducer_, *base_.vote, *schedule_, parts_.marker}, step,
      std::move(hooks));
  if (base_.val) {
    evaluator_ = make_evaluator(base_, state_.ema.get(), parts_.marker, parts_.stop);
  }
}

// Only here is the number of steps known: the learning rate would never reach its peak, and nobody asks for that.
void Training::check_warmup() const {
  const Length& warmup = base_.plan.schedule.warmup;
  const int64_t per_epoch = loader_->steps_per_epoch();
  int64_t steps = length_in_steps(warmup, per_epoch, total_steps_);
  if (base_.plan.schedule.granularity == Granularity::kEpoch) steps = (steps + per_epoch - 1) / per_epoch * per_epoch;
  if (steps < total_steps_ || steps == 0) return;
  throw Error(ErrorKind::kSpec,
              "the warm-up of " + format_length(warmup) + " (" + plural(steps, "step") +
                  ") does not end before the run, which has " + plural(total_steps_, "step"),
              "schedule.warmup", "shorten schedule.warmup, or train longer");
}

CheckpointOptions Training::checkpoint_options() const {
  const RunPlan& plan = base_.plan;
  CheckpointOptions options;
  options.directory = plan.output + "/checkpoints";
  options.run_id = base_.assign.run_id;
  options.attempt = base_.assign.attempt;
  options.keep_last = plan.checkpoint.keep_last;
  if (stamp_.best_of.is_object()) {
    options.keep_best = stamp_.best_of.at("metric").get<std::string>();
    options.best_measured_on = stamp_.best_of.at("data");
  }
  options.best_is_larger = plan.checkpoint.best_is_larger;
  options.check_fence =
      lock_fence(real_file_system(), plan.output + "/lock", base_.assign.run_id, base_.assign.attempt);
  return options;
}

std::vector<std::string> Training::notices() const {
  std::vector<std::string> notices = base_.notices;
  notices.insert(notices.end(), resumed_.begun.begin(), resumed_.begun.end());
  if (resumed_.saved) {
    const std::string changed = exactness_notice(resumed_.saved->exactness, stamp_.exactness);
    if (!changed.empty()) notices.push_back(changed);
    if (resumed_.saved->optimizer != optimizer_items(*state_.optimizer)) {
      notices.push_back("the optimizer is another one than the checkpoint's: its state starts afresh");
    }
    if (state_.ema && !resumed_.saved->has_ema)
      notices.push_back("the checkpoint has no moving average of the weights: it starts from the weights");
    if (!state_.ema && resumed_.saved->has_ema)
      notices.push_back("the checkpoint's moving average of the weights is left out: train.ema_decay is none");
  }
  const std::vector<int64_t>& profile = base_.plan.profile;
  if (!profile.empty() && (profile.front() > total_steps_ || profile.back() <= state_.counters.step)) {
    notices.push_back("log.profile: this launch runs steps " + std::to_string(state_.counters.step + 1) + " to " +
                      std::to_string(total_steps_) + ", none of which is to be traced");
  }
  if (base_.train->size() < base_.plan.train.global_batch) {
    notices.push_back("the training set has " + plural(base_.train->size(), "sample") + ", fewer than global_batch " +
                      std::to_string(base_.plan.train.global_batch) + ": each step is a whole epoch of them");
  }
  return notices;
}

Json Training::ready() const {
  Counters counters = state_.counters;
  const EarlyStopping stopping(base_.plan.early_stopping, counters.stale_evaluations, counters.stop_best);
  int64_t parameters = 0;
  for (const at::Tensor& parameter : state_.parameters()) parameters += parameter.numel();
  const bool evaluated = evaluator_ == nullptr || base_.plan.evaluate.never() || counters.evaluated_at == counters.step;
  Json body;
  body["step"] = counters.step;
  body["resumed_from"] = resumed_.path;
  body["rejected"] = resumed_.rejected;
  body["complete"] = (counters.step >= total_steps_ || stopping.due()) && evaluated && counters.updates > 0;
  if (counters.step < total_steps_ && stopping.due()) body["stopped_early"] = stopping.reason();
  body["total_steps"] = total_steps_;
  body["steps_per_epoch"] = loader_->steps_per_epoch();
  body["samples"] = base_.train->size();
  body["parameters"] = parameters;
  body["model_flops_per_sample"] = insight_->flops_per_sample();
  body["peak_flops"] = insight_->peak_flops() ? Json(*insight_->peak_flops()) : Json();
  body["notices"] = notices();
  body["fingerprint"] = stamp_.data;
  return body;
}

// However the path is spelled.
bool Training::is_ours(const std::string& checkpoint) const {
  std::error_code ignored;
  const auto parent = std::filesystem::path(checkpoint).parent_path();
  return std::filesystem::equivalent(parent, base_.plan.output + "/checkpoints", ignored);
}

LoopOptions Training::loop_options() const {
  const RunPlan& plan = base_.plan;
  LoopOptions options;
  options.triggers = {plan.log, plan.evaluate, plan.checkpoint.every, total_steps_, loader_->steps_per_epoch()};
  options.samples_per_epoch = base_.train->size();
  if (plan.data.tail == Tail::kDrop) options.samples_per_epoch = loader_->steps_per_epoch() * plan.train.global_batch;
  options.target_shape = base_.train->target_shape();
  options.best_metric = plan.checkpoint.keep_best;
  options.best_is_larger = plan.checkpoint.best_is_larger;
  options.early_stopping = plan.early_stopping;
  options.flops_per_sample = insight_->flops_per_sample();
  options.peak_flops = insight_->peak_flops();
  // A checkpoint of another directory (--resume PATH) is not one of this run yet.
  if (resumed_.saved && is_ours(resumed_.path)) options.saved_at = state_.counters.step;
  options.needs_update = !plan.smoke;
  options.stamp = stamp_;
  return options;
}

Json Training::run() {
  // Before Go nothing may be written, and a stop can come instead of it; then the first vote ends the run.
  // A checkpoint of this directory is kept at the step where training continues; another history's of that step is not.
  const int64_t step = state_.counters.step;
  const LoopOptions options = loop_options();
  const bool ours = options.saved_at == step;
  if (!parts_.stop.raised()) saver_->prepare(!resumed_.saved ? -1 : ours ? step : step - 1);
  LoopContext context{base_.comms.gradients, *base_.vote,  parts_.stop,      parts_.marker,
                      parts_.records,        real_clock(), insight_->timer()};
  Loop loop({state_, *runner_, *loader_, evaluator_.get(), *saver_, trace_.get(), context}, options);
  const LoopResult result = loop.run();
  Json body;
  body["outcome"] = result.reason == StopReason::kNone ? "complete" : "stopped";
  body["reason"] = to_string(result.reason);
  body["step"] = result.step;
  body["saved_step"] = result.saved_step;
  if (!result.stopped_early.empty()) body["stopped_early"] = result.stopped_early;
  body["final"] = result.final_metrics;
  return body;
}

}  // namespace gputrain

#pragma once
// One training rank in this process, put together as the worker does it, on a small synthetic data set, with invented
// time and records kept in memory.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "dist/comm_single.h"
#include "dist/reducer.h"
#include "support/fake_clock.h"
#include "support/faulty_fs.h"
#include "support/run_ranks.h"
#include "support/temp_dir.h"
#include "train/loop.h"
#include "train/parameter_groups.h"
#include "train/precision.h"
#include "train/resume.h"

namespace gputrain::testing {

// An mlp with dropout on 12 features and 4 classes; 5 steps an epoch of 46 samples in global batches of 10 (the last
// one has 6).
inline RunPlan small_plan(const std::string& output) {
  RunPlan plan;
  plan.name = "rig";
  plan.output = output;
  plan.seed = 7;
  plan.model.name = "mlp";
  plan.model.args = {{"in_features", 12}, {"hidden", {16, 8}}, {"num_classes", 4}, {"dropout", 0.0}};
  plan.data.train = {"synthetic", {{"samples", 46}, {"shape", {12}}, {"num_classes", 4}}};
  plan.data.val = DataSourcePlan{"synthetic", {{"samples", 21}, {"shape", {12}}, {"num_classes", 4}}};
  plan.data.workers = 1;
  plan.train.epochs = 2;
  plan.train.global_batch = 10;
  plan.train.micro_batch = 0;
  plan.train.clip_grad_norm = 1.0;
  plan.optimizer = {"adamw", {{"lr", 1e-2}, {"weight_decay", 0.05}, {"betas", {0.9, 0.999}}, {"eps", 1e-8}}};
  plan.schedule.name = "cosine";
  plan.log.length = Length{1, Length::Unit::kSteps};
  plan.reducer = "c10d";
  return plan;
}

// Float samples, one of which has another fourth value: NaN, one that no half holds.
class AlteredSource : public Source {
 public:
  AlteredSource(std::unique_ptr<Source> source, int64_t id, float value)
      : source_(std::move(source)), id_(id), value_(value) {}
  int64_t size() const override { return source_->size(); }
  std::vector<int64_t> sample_shape() const override { return source_->sample_shape(); }
  at::ScalarType sample_type() const override { return source_->sample_type(); }
  at::ScalarType target_type() const override { return source_->target_type(); }
  std::vector<int64_t> target_shape() const override { return source_->target_shape(); }
  void read(int64_t id, void* sample, void* target) const override {
    source_->read(id, sample, target);
    if (id == id_) static_cast<float*>(sample)[3] = value_;
  }
  Json fingerprint() const override { return source_->fingerprint(); }

 private:
  std::unique_ptr<Source> source_;
  int64_t id_;
  float value_;
};

class KeptRecords : public RecordChannel {
 public:
  void send(const Json& record) override { records.push_back(record); }
  void sync() override { ++syncs; }
  std::vector<Json> of(const std::string& kind) const {
    std::vector<Json> found;
    for (const Json& record : records) {
      if (record.at("kind") == kind) found.push_back(record);
    }
    return found;
  }
  std::vector<Json> records;
  int syncs = 0;
};

struct Rig {
  Rig(const RunPlan& run_plan, const Comms& ranks, const std::string& mode = "auto",
      std::unique_ptr<Source> data = nullptr, std::unique_ptr<Loader> other_loader = nullptr)
      : plan(run_plan),
        comms(ranks),
        vote(comms.control),
        rank(comms.control->rank()),
        world(comms.control->world_size()),
        train(data ? std::move(data) : open_source(plan.data.train, "data.train")),
        val(open_source(*plan.data.val, "data.val")),
        loader(other_loader ? std::move(other_loader)
                            : make_loader(*train, plan.data.train_transforms, loader_options())),
        total(total_steps(plan.train, loader->steps_per_epoch())),
        state(make_state()),
        marker(&page, stop, std::nullopt) {
    real_file_system().make_directories(plan.output);
    fs = std::make_unique<FaultyFileSystem>(plan.output);
    stamp.identity = identity_of(plan);
    stamp.data = train->fingerprint();
    stamp.exactness = Json{{"world_size", world}};
    resumed = resume(comms, state, stamp, [&] { return load_for_resume(*fs, plan.output + "/checkpoints", mode, ""); });
    std::vector<std::string> names;
    for (const auto& [name, parameter] : named_parameters_of(*state.model)) names.push_back(name);
    ReducerOptions reduction;
    reduction.kind = plan.reducer;
    if (resumed.saved) reduction.layout = resumed.saved->bucket_layout;
    reduction.on_all_reduce = [this] { marker.enter_all_reduce(); };
    reducer = make_reducer(comms.gradients, state.parameters(), names, reduction);
    schedule = std::make_unique<Schedule>(plan.schedule, total, loader->steps_per_epoch());
    objective = make_objective(plan, plan.model.classes().value_or(1));
    runner = std::make_unique<StepRunner>(StepRunner::Parts{state, *objective, *reducer, vote, *schedule, marker},
                                          step_options(), StepHooks{});
    LoaderOptions evaluation = loader_options();
    evaluation.micro_batch = 4;
    EvaluateOptions evaluating;
    evaluating.loader = evaluation;
    evaluating.precision = plan.train.precision;
    evaluating.channels_last = plan.train.channels_last;
    evaluator = std::make_unique<Evaluator>(
        Evaluator::Parts{*state.model, *objective, state.ema.get(), *val, vote, marker, stop}, evaluating);
    CheckpointOptions saving;
    saving.directory = plan.output + "/checkpoints";
    saving.run_id = "rig";
    saving.keep_last = 100;
    saving.keep_best = plan.checkpoint.keep_best;
    saver = std::make_unique<Saver>(Saver::Parts{*fs, records, marker, clock, rank}, saving);
  }

  LoaderOptions loader_options() const {
    LoaderOptions options;
    options.shard = {rank, world};
    options.global_batch = plan.train.global_batch;
    options.micro_batch = plan.train.micro_batch;
    options.drop_tail = plan.data.tail == Tail::kDrop;
    options.seed = plan.seed;
    options.workers = plan.data.workers;
    options.float_type = model_type(plan.train.precision);
    return options;
  }

  TrainState make_state() const {
    auto model = make_model(plan.model, plan.seed, model_type(plan.train.precision));
    if (plan.train.channels_last) make_channels_last(*model);
    const NamedParameters parameters = named_parameters_of(*model);
    return {model, make_grouped_optimizer(plan.optimizer, plan.parameters, parameters),
            GradScaler(needs_grad_scaler(plan.train.precision), at::kCPU), Counters{},
            plan.train.ema_decay > 0 ? std::make_unique<Ema>(plan.train.ema_decay, parameters) : nullptr};
  }

  StepOptions step_options() const {
    StepOptions options;
    options.seed = plan.seed;
    options.precision = plan.train.precision;
    options.clip_grad_norm = plan.train.clip_grad_norm;
    options.clip_grad_value = plan.train.clip_grad_value;
    options.mix = plan.mix;
    options.channels_last = plan.train.channels_last;
    return options;
  }

  LoopOptions loop_options() const {
    LoopOptions options;
    options.needs_update = !plan.smoke;
    options.triggers = {plan.log, plan.evaluate, plan.checkpoint.every, total, loader->steps_per_epoch()};
    options.samples_per_epoch = train->size();
    if (plan.data.tail == Tail::kDrop) options.samples_per_epoch = loader->steps_per_epoch() * plan.train.global_batch;
    options.target_shape = train->target_shape();
    options.best_metric = plan.checkpoint.keep_best;
    options.best_is_larger = plan.checkpoint.best_is_larger;
    options.early_stopping = plan.early_stopping;
    if (resumed.saved) options.saved_at = state.counters.step;
    options.stamp = stamp;
    return options;
  }

  LoopResult run(Trace* trace = nullptr) {
    LoopContext context{comms.gradients, vote, stop, marker, records, clock};
    Loop loop({state, *runner, *loader, evaluator.get(), *saver, trace, context}, loop_options());
    return loop.run();
  }

  // All bits that training changes.
  std::string hash() const {
    std::vector<at::Tensor> tensors;
    state.visit([&](const std::string&, at::Tensor& tensor) { tensors.push_back(tensor); });
    return hash_of(tensors);
  }

  RunPlan plan;
  Comms comms;
  Vote vote;
  int rank, world;
  std::unique_ptr<Source> train, val;
  std::unique_ptr<Loader> loader;
  int64_t total;
  TrainState state;
  StopSource stop;
  ProgressPage page;
  PhaseMarker marker;
  FakeClock clock;
  std::unique_ptr<FaultyFileSystem> fs;  // never fails here, and does not spend the time of a real fsync
  KeptRecords records;
  StateStamp stamp;
  Resumed resumed;
  std::unique_ptr<Objective> objective;
  std::unique_ptr<GradReducer> reducer;
  std::unique_ptr<Schedule> schedule;
  std::unique_ptr<StepRunner> runner;
  std::unique_ptr<Evaluator> evaluator;
  std::unique_ptr<Saver> saver;
};

inline Comms alone() {
  return {make_single_comm(), make_single_comm()};
}

inline Every steps(int64_t count) {
  return {Length{count, Length::Unit::kSteps}, std::nullopt};
}
inline Every epochs(int64_t count) {
  return {Length{count, Length::Unit::kEpochs}, std::nullopt};
}

inline std::vector<int64_t> steps_of(const std::vector<Json>& records) {
  std::vector<int64_t> found;
  for (const Json& record : records) found.push_back(record.at("step").get<int64_t>());
  return found;
}

inline std::vector<std::string> whys_of(const std::vector<Json>& records) {
  std::vector<std::string> found;
  for (const Json& record : records) found.push_back(record.at("why").get<std::string>());
  return found;
}

}  // namespace gputrain::testing

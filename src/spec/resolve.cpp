#include "spec/resolve.h"

#include <algorithm>
#include <map>

#include "spec/catalog/catalog.h"
#include "spec/placement.h"
#include "spec/shares.h"
#include "util/text.h"

namespace gputrain {
namespace {

std::string absolute(const std::string& path, const std::string& cwd) {
  if (path.starts_with('/')) return path;
  std::string_view rest = path;
  while (rest.starts_with("./")) rest.remove_prefix(2);
  return cwd + (cwd.ends_with('/') ? "" : "/") + std::string(rest);
}

std::string text_at(const Spec& spec, std::string_view key) {
  return spec.at(key).get<std::string>();
}

Every every_from(const std::string& text) {
  Every every;
  if (text == "never") return every;
  every.length = parse_length(text);
  if (!every.length) every.duration = parse_duration(text);
  return every;
}

// The arguments that stand below "optimizer." or "model.args.": settings that are no fields.
Json arguments_at(const Spec& spec, const std::string& prefix, CatalogKind kind, const std::string& name) {
  Json args = Json::object();
  for (const auto& arg : find_entry(kind, name)->args) args[arg.name] = spec.at(prefix + arg.name);
  return args;
}

DataSourcePlan source_from(const Json& source, const std::string& cwd) {
  DataSourcePlan plan = {source["format"].get<std::string>(), source};
  plan.args.erase("format");
  for (const auto& arg : find_entry(CatalogKind::kFormat, plan.format)->args) {
    Json& value = plan.args[arg.name];
    if (arg.type == ArgType::kPath) value = absolute(value.get<std::string>(), cwd);
    if (arg.type == ArgType::kArray) value["path"] = absolute(value["path"].get<std::string>(), cwd);
  }
  return plan;
}

std::vector<Named> transforms_from(const Json& list) {
  std::vector<Named> transforms;
  for (const auto& item : list) transforms.push_back({item["name"].get<std::string>(), item["args"]});
  return transforms;
}

template <class E>
E choice_at(const Spec& spec, std::string_view key) {
  const std::string word = text_at(spec, key);
  for (int i = 0;; ++i) {
    GP_CHECK(!to_string(static_cast<E>(i)).empty(), "no such word: " + word);
    if (to_string(static_cast<E>(i)) == word) return static_cast<E>(i);
  }
}

bool has_gpus(const RunPlan& plan) {
  return plan.launch.backend == Backend::kNccl;
}

std::string path_at(const Spec& spec, std::string_view key, const std::string& cwd) {
  const std::string path = text_at(spec, key);
  return path == "none" ? "" : absolute(path, cwd);
}

double number_or_zero(const Spec& spec, std::string_view key) {
  const Json& value = spec.at(key);
  return value.is_number() ? value.get<double>() : 0;
}

void resolve_model(const Spec& spec, const HostFacts& facts, RunPlan* plan) {
  ModelPlan& model = plan->model;
  const std::string name = text_at(spec, "model.name");
  if (name != "none") {
    model.name = name;
    model.args = arguments_at(spec, "model.args.", CatalogKind::kModel, name);
  } else {
    constexpr std::string_view kArgs = "model.args.";
    std::map<std::string, Json> sorted;  // their order in the file means nothing: it is no part of the run's identity
    for (const auto& setting : spec.settings()) {
      if (setting.key.starts_with(kArgs)) sorted[setting.key.substr(kArgs.size())] = setting.value;
    }
    for (auto& [name_of, value] : sorted) model.args[name_of] = std::move(value);
  }
  model.torchscript = path_at(spec, "model.torchscript", facts.cwd);
  model.plugin = path_at(spec, "model.plugin", facts.cwd);
  model.init = path_at(spec, "model.init", facts.cwd);
  model.init_strict = spec.at("model.init_strict").get<bool>();
  model.init_ignore = spec.at("model.init_ignore").get<std::vector<std::string>>();
  model.freeze = spec.at("model.freeze").get<std::vector<std::string>>();
}

void resolve_loss(const Spec& spec, RunPlan* plan) {
  plan->mix = {number_or_zero(spec, "data.mixup"), number_or_zero(spec, "data.cutmix")};
  plan->loss.label_smoothing = spec.at("loss.label_smoothing").get<double>();
  plan->loss.ignore_index = spec.integer("loss.ignore_index");
  if (const Json& weight = spec.at("loss.dice_weight"); weight.is_number())
    plan->loss.dice_weight = weight.get<double>();
  if (const std::string word = text_at(spec, "loss.distance"); word != "default") plan->loss.distance = word;
}

void resolve_data(const Spec& spec, const HostFacts& facts, RunPlan* plan, std::vector<Notice>* notices) {
  DataPlan& data = plan->data;
  data.train = source_from(spec.at("data.train"), facts.cwd);
  if (!spec.at("data.val").is_null()) data.val = source_from(spec.at("data.val"), facts.cwd);
  data.train_transforms = transforms_from(spec.at("data.transforms.train"));
  data.val_transforms = transforms_from(spec.at("data.transforms.val"));
  data.tail = choice_at<Tail>(spec, "data.tail");
  const int spare = cores_per_rank(plan->launch) - 1;
  data.workers = static_cast<int>(spec.integer("data.workers").value_or(std::clamp(spare, 1, 4)));
  data.prefetch = static_cast<int>(*spec.integer("data.prefetch"));
  const Json& pin = spec.at("data.pin_memory");
  data.pin_memory = has_gpus(*plan) && (!pin.is_boolean() || pin.get<bool>());
  if (pin == true && !data.pin_memory)
    notices->push_back({"no_pinning", "data.pin_memory has no effect: this run uses no GPU"});
}

void resolve_train(const Spec& spec, RunPlan* plan) {
  TrainPlan& train = plan->train;
  train.epochs = spec.integer("train.epochs");
  train.max_steps = spec.integer("train.max_steps");
  train.global_batch = *spec.integer("train.global_batch");
  train.micro_batch = spec.integer("train.micro_batch").value_or(0);
  train.precision = choice_at<Precision>(spec, "train.precision");
  train.clip_grad_norm = number_or_zero(spec, "train.clip_grad_norm");
  train.clip_grad_value = number_or_zero(spec, "train.clip_grad_value");
  train.ema_decay = number_or_zero(spec, "train.ema_decay");
  train.channels_last = spec.at("train.channels_last").get<bool>();
  train.deterministic = spec.at("train.deterministic").get<bool>();
  plan->reducer = text_at(spec, "train.reducer");
}

void resolve_optimizer(const Spec& spec, RunPlan* plan) {
  plan->optimizer.name = text_at(spec, "optimizer.name");
  plan->optimizer.args = arguments_at(spec, "optimizer.", CatalogKind::kOptimizer, plan->optimizer.name);
  plan->parameters.decay_norm_and_bias = spec.at("optimizer.decay_norm_and_bias").get<bool>();
  for (const auto& [pattern, scale] : spec.at("optimizer.lr_scales").items())
    plan->parameters.lr_scales.push_back({pattern, scale.get<double>()});
  SchedulePlan& schedule = plan->schedule;
  schedule.name = text_at(spec, "schedule.name");
  schedule.warmup = parse_length(text_at(spec, "schedule.warmup")).value_or(Length{});
  schedule.warmup_start = spec.at("schedule.warmup_start").get<double>();
  schedule.args = arguments_at(spec, "schedule.", CatalogKind::kSchedule, schedule.name);
  schedule.granularity = choice_at<Granularity>(spec, "schedule.granularity");
}

void resolve_records(const Spec& spec, RunPlan* plan) {
  const std::string evaluate = text_at(spec, "evaluate.every");
  if (plan->data.val) plan->evaluate = every_from(evaluate == "auto" ? "1 epoch" : evaluate);
  plan->top_k = static_cast<int>(spec.integer("evaluate.top_k").value_or(0));
  if (const std::string metric = text_at(spec, "early_stopping.metric"); metric != "none") {
    plan->early_stopping = {metric, static_cast<int>(*spec.integer("early_stopping.patience")),
                            spec.at("early_stopping.min_delta").get<double>(),
                            find_entry(CatalogKind::kMetric, metric)->larger_is_better};
  }
  if (spec.at("log.profile").is_array()) plan->profile = spec.at("log.profile").get<std::vector<int64_t>>();
  plan->checkpoint.every = every_from(text_at(spec, "checkpoint.every"));
  plan->checkpoint.keep_last = static_cast<int>(*spec.integer("checkpoint.keep_last"));
  const std::string best = text_at(spec, "checkpoint.keep_best");
  if (best != "none") {
    plan->checkpoint.keep_best = best;
    plan->checkpoint.best_is_larger = find_entry(CatalogKind::kMetric, best)->larger_is_better;
  }
  const std::string log = text_at(spec, "log.every");
  plan->log = every_from(log != "auto" ? log : has_gpus(*plan) ? "1s" : "1 step");
}

void check_batch(const Spec& spec, const RunPlan& plan, std::vector<Error>* errors) {
  const int64_t batch = plan.train.global_batch;
  const int world = plan.launch.world_size;
  if (batch < world) {
    errors->push_back(spec.error_at(
        "train.global_batch",
        plural(batch, "sample") + " cannot be divided among " + plural(world, "rank") + ": each needs at least one",
        ErrorKind::kSpec, "use a larger global_batch or fewer ranks"));
    return;
  }
  const int64_t share = largest_share(batch, world);
  if (plan.train.micro_batch > share) {
    errors->push_back(spec.error_at("train.micro_batch",
                                    std::to_string(plan.train.micro_batch) +
                                        " is more than a rank's share: " + plural(batch, "sample") + " on " +
                                        plural(world, "rank") + " are at most " + std::to_string(share) + " each",
                                    ErrorKind::kSpec, "use at most " + std::to_string(share) + ", or auto"));
  }
}

// With whom a sample is mixed: another of its micro-batch.
void check_mixing(const Spec& spec, const RunPlan& plan, std::vector<Error>* errors) {
  const int64_t share = largest_share(plan.train.global_batch, plan.launch.world_size);
  const int64_t largest = plan.train.micro_batch > 0 ? std::min(plan.train.micro_batch, share) : share;
  if (largest > 1) return;
  for (const char* key : {"data.mixup", "data.cutmix"}) {
    if (number_or_zero(spec, key) == 0) continue;
    errors->push_back(spec.error_at(key, "a micro-batch is one sample, which has none to be mixed with",
                                    ErrorKind::kSpec, "use a larger train.micro_batch or train.global_batch"));
  }
}

// LibTorch refuses such a run at its first step only.
void check_deterministic(const Spec& spec, const RunPlan& plan, std::vector<Error>* errors) {
  const CatalogEntry* model = find_entry(CatalogKind::kModel, plan.model.name);
  if (!plan.train.deterministic || !has_gpus(plan) || model == nullptr || model->deterministic_on_gpus) return;
  errors->push_back(spec.error_at("train.deterministic",
                                  "LibTorch has no deterministic kernels on GPUs for " + plan.model.name,
                                  ErrorKind::kSpec, "write deterministic: false, or launch.backend: gloo"));
}

// Seen with LibTorch 2.11: gradients of 3-dimensional bf16 convolutions are now and then not finite on the CPU, because
// its kernel reads memory that was never written.
void check_volumes(const Spec& spec, const RunPlan& plan, std::vector<Error>* errors) {
  const CatalogEntry* model = find_entry(CatalogKind::kModel, plan.model.name);
  const bool volumes = model != nullptr && model->sample_shape.size() == 4;
  if (!volumes || has_gpus(plan) || plan.train.precision != Precision::kBf16) return;
  errors->push_back(spec.error_at("train.precision",
                                  "bf16 is not safe for volumes on the CPU: LibTorch's gradients may be NaN there",
                                  ErrorKind::kSpec, "use fp32"));
}

void add_notices(const RunPlan& plan, std::vector<Notice>* notices) {
  const int64_t batch = plan.train.global_batch;
  const int world = plan.launch.world_size;
  if (batch % world != 0) {
    notices->push_back({"uneven_shares", "the global batch of " + std::to_string(batch) + " is not divisible by " +
                                             plural(world, "rank") + ": ranks take " + std::to_string(batch / world) +
                                             " or " + std::to_string(batch / world + 1) + " samples"});
  }
  if (plan.train.precision == Precision::kFp16 && !has_gpus(plan)) {
    notices->push_back({"slow_precision", "fp16 on the CPU is about 70 times slower than fp32: use fp32 or bf16"});
  }
  if (plan.train.precision == Precision::kTf32 && !has_gpus(plan)) {
    notices->push_back({"slow_precision", "tf32 is the same as fp32 on the CPU"});
  }
  if (plan.train.epochs && plan.train.max_steps) {
    notices->push_back({"two_limits", "train.epochs (" + std::to_string(*plan.train.epochs) +
                                          ") and train.max_steps (" + std::to_string(*plan.train.max_steps) +
                                          ") are both given: the first reached ends the run"});
  }
}

}  // namespace

RunPlan resolve(const Spec& spec, const HostFacts& facts, std::vector<Notice>* notices) {
  std::vector<Error> errors;
  std::vector<Notice> found;
  RunPlan plan;
  plan.name = text_at(spec, "name");
  plan.output = absolute(text_at(spec, "output"), facts.cwd);
  plan.seed = spec.at("seed").get<uint64_t>();
  plan.task = choice_at<Task>(spec, "task");
  plan.smoke = spec.smoke();
  plan.launch = place_ranks(spec, facts, &errors, &found);
  resolve_model(spec, facts, &plan);
  resolve_train(spec, &plan);
  resolve_data(spec, facts, &plan, &found);
  resolve_loss(spec, &plan);
  resolve_optimizer(spec, &plan);
  resolve_records(spec, &plan);
  check_batch(spec, plan, &errors);
  check_mixing(spec, plan, &errors);
  check_deterministic(spec, plan, &errors);
  check_volumes(spec, plan, &errors);
  if (!errors.empty()) {
    std::ranges::stable_sort(errors, {}, [](const Error& error) { return error.kind != ErrorKind::kSpec; });
    throw ErrorList(std::move(errors));
  }
  add_notices(plan, &found);
  if (notices != nullptr) notices->insert(notices->end(), found.begin(), found.end());
  return plan;
}

std::vector<Error> compare_for_resume(const Json& old_identity, const RunPlan& now, const Spec& marks) {
  const Json identity = identity_of(now);
  std::vector<std::string> keys;
  for (const auto& [key, value] : old_identity.items()) keys.push_back(key);
  for (const auto& [key, value] : identity.items()) {
    if (!old_identity.contains(key)) keys.push_back(key);
  }
  std::vector<Error> errors;
  for (const auto& key : keys) {
    const std::string before = old_identity.contains(key) ? old_identity[key].dump() : "absent";
    const std::string after = identity.contains(key) ? identity[key].dump() : "absent";
    if (before == after) continue;
    errors.push_back(marks.error_at(
        key, "the run in this output directory was started with " + before + ", now it is " + after, ErrorKind::kSpec,
        "restore the old value, choose another output, or start over with --resume never"));
  }
  return errors;
}

}  // namespace gputrain

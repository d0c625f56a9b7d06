#include "train/state.h"

#include <cmath>
#include <set>
#include <utility>

#include "util/error.h"
#include "util/text.h"

namespace gputrain {
namespace {

constexpr int kStateFormat = 1;

// Reads an object's items one by one and afterwards refuses what nobody asked for.
class StrictReader {
 public:
  StrictReader(const Json& json, std::string where) : json_(json), where_(std::move(where)) {
    if (!json.is_object()) fail("state.json is not an object");
  }

  const Json& item(const std::string& name) {
    if (!json_.contains(name)) fail("state.json has no item \"" + name + "\"");
    known_.push_back(name);
    return json_.at(name);
  }
  int64_t integer(const std::string& name, int64_t least) {
    const Json& value = item(name);
    if (!value.is_number_integer() || value.get<int64_t>() < least) {
      fail("state.json: \"" + name + "\" is " + dump_line(value) + ", not a whole number >= " + std::to_string(least));
    }
    return value.get<int64_t>();
  }
  bool flag(const std::string& name) {
    const Json& value = item(name);
    if (!value.is_boolean()) fail("state.json: \"" + name + "\" is " + dump_line(value) + ", not true or false");
    return value.get<bool>();
  }
  // Never NaN.
  std::optional<double> number_or_null(const std::string& name) {
    const Json& value = item(name);
    if (value.is_null()) return std::nullopt;
    const bool readable = value.is_number() || value == "inf" || value == "-inf";
    if (!readable) fail("state.json: \"" + name + "\" is " + dump_line(value) + ", not a number");
    return number_from_json(value);
  }
  void finish() {
    for (const auto& [name, value] : json_.items()) {
      if (std::find(known_.begin(), known_.end(), name) == known_.end()) {
        fail("state.json has an unknown item \"" + name + "\"");
      }
    }
  }
  [[noreturn]] void fail(const std::string& message) const {
    throw Error(ErrorKind::kCheckpoint, message, where_,
                "this checkpoint was written by another version; use the gputrain that wrote it, or --resume never");
  }

 private:
  const Json& json_;
  std::string where_;
  std::vector<std::string> known_;
};

using Tensors = std::map<std::string, at::Tensor>;

std::string shape_of(const at::Tensor& tensor) {
  std::vector<std::string> sizes;
  for (const int64_t size : tensor.sizes()) sizes.push_back(std::to_string(size));
  return std::string(c10::toString(tensor.scalar_type())) + "[" + join(sizes, ", ") + "]";
}

// What keeps `saved` from being copied into `wanted`, in words; at most a few of them.
std::vector<std::string> differences(const NamedTensors& wanted, const Tensors& saved, const std::string& what) {
  std::vector<std::string> problems;
  std::map<std::string, bool> known;
  for (const auto& [name, tensor] : wanted) {
    known[name] = true;
    const auto found = saved.find(name);
    if (found == saved.end()) {
      problems.push_back(what + " has no tensor " + name);
    } else if (found->second.sizes() != tensor.sizes() || found->second.scalar_type() != tensor.scalar_type()) {
      problems.push_back(what + ": " + name + " is " + shape_of(found->second) + ", the model needs " +
                         shape_of(tensor));
    }
  }
  for (const auto& [name, tensor] : saved) {
    if (!known.count(name)) problems.push_back(what + " has an unknown tensor " + name);
  }
  return problems;
}

void refuse(std::vector<std::string> problems, const std::string& where) {
  if (problems.empty()) return;
  const size_t count = problems.size();
  constexpr size_t kShown = 5;
  if (count > kShown) {
    problems.resize(kShown);
    problems.push_back("and " + std::to_string(count - kShown) + " more");
  }
  throw Error(ErrorKind::kCheckpoint, join(problems, "; "), where, "the checkpoint belongs to another model");
}

void copy_all(const NamedTensors& wanted, const Tensors& saved) {
  at::NoGradGuard no_grad;
  for (const auto& [name, tensor] : wanted) {
    at::Tensor target = tensor;
    target.copy_(saved.at(name));
  }
}

// "seed was 1, is 2; ..." of two objects.
std::string changes_text(const Json& before, const Json& now) {
  std::vector<std::string> changes;
  for (const auto& [name, value] : now.items()) {
    const Json old = before.contains(name) ? before.at(name) : Json();
    if (old != value) changes.push_back(name + " was " + dump_line(old) + ", is " + dump_line(value));
  }
  for (const auto& [name, value] : before.items()) {
    if (!now.contains(name)) changes.push_back(name + " was " + dump_line(value) + ", is not set");
  }
  return join(changes, "; ");
}

// The moving average among what optimizer.safetensors holds, and the rest.
std::pair<Tensors, Tensors> split_averages(const Tensors& saved) {
  std::pair<Tensors, Tensors> parts;
  for (const auto& item : saved) (item.first.ends_with("/ema") ? parts.first : parts.second).insert(item);
  return parts;
}

}  // namespace

NamedTensors model_tensors(const Model& model) {
  NamedTensors tensors = all_parameters_of(model);
  const NamedTensors buffers = named_buffers_of(model);
  tensors.insert(tensors.end(), buffers.begin(), buffers.end());
  return tensors;
}

void Counters::finish_step(int64_t samples, int64_t samples_per_epoch, bool was_skipped) {
  ++step;
  if (was_skipped) {
    ++skipped;
  } else {
    ++updates;
  }
  samples_in_epoch += samples;
  if (samples_in_epoch >= samples_per_epoch) {
    ++epoch;
    samples_in_epoch = 0;
  }
}

void TrainState::visit(const std::function<void(const std::string&, at::Tensor&)>& visitor) const {
  for (auto& [name, tensor] : model_tensors(*model)) visitor(name, tensor);
  for (auto& [name, tensor] : optimizer->state()) visitor("optimizer/" + name, tensor);
  if (!ema) return;
  for (auto& [name, tensor] : ema->state()) visitor("optimizer/" + name, tensor);
}

std::vector<at::Tensor> TrainState::parameters() const {
  std::vector<at::Tensor> tensors;
  for (const auto& [name, tensor] : named_parameters_of(*model)) tensors.push_back(tensor);
  return tensors;
}

std::vector<at::Tensor> TrainState::buffers() const {
  std::vector<at::Tensor> tensors;
  for (const auto& [name, tensor] : named_buffers_of(*model)) tensors.push_back(tensor);
  return tensors;
}

Json state_json(const TrainState& state, const StateStamp& stamp) {
  const Counters& counters = state.counters;
  Json json;
  json["format"] = kStateFormat;
  json["step"] = counters.step;
  json["updates"] = counters.updates;
  json["epoch"] = counters.epoch;
  json["samples_in_epoch"] = counters.samples_in_epoch;
  json["skipped"] = counters.skipped;
  json["evaluated_at"] = counters.evaluated_at;
  json["best"] = counters.best ? json_number(*counters.best) : Json();
  json["best_of"] = stamp.best_of;
  json["early_stopping"] = {{"best", counters.stop_best ? json_number(*counters.stop_best) : Json()},
                            {"stale", counters.stale_evaluations},
                            {"of", stamp.stop_of}};
  json["ema"] = state.ema != nullptr;
  json["scaler"] = state.scaler.enabled() ? state.scaler.state() : Json();
  json["identity"] = stamp.identity;
  json["data"] = stamp.data;
  json["exactness"] = stamp.exactness;
  json["bucket_layout"] = stamp.bucket_layout;
  json["optimizer"] = optimizer_items(*state.optimizer);
  return json;
}

CheckpointContent content_of(const TrainState& state, const StateStamp& stamp) {
  CheckpointContent content;
  content.step = state.counters.step;
  content.model = model_tensors(*state.model);
  content.optimizer = state.optimizer->state();
  if (state.ema) {
    const NamedTensors averages = state.ema->state();
    content.optimizer.insert(content.optimizer.end(), averages.begin(), averages.end());
  }
  content.state = state_json(state, stamp);
  return content;
}

ParsedState parse_train_state(const Json& json, const std::string& where) {
  StrictReader reader(json, where);
  ParsedState parsed;
  if (reader.integer("format", 1) != kStateFormat)
    reader.fail("state.json has a format that this version does not read");
  Counters& counters = parsed.counters;
  counters.step = reader.integer("step", 0);
  counters.updates = reader.integer("updates", 0);
  counters.epoch = reader.integer("epoch", 0);
  counters.samples_in_epoch = reader.integer("samples_in_epoch", 0);
  counters.skipped = reader.integer("skipped", 0);
  counters.evaluated_at = reader.integer("evaluated_at", -1);
  counters.best = reader.number_or_null("best");
  parsed.stamp.best_of = reader.item("best_of");
  StrictReader stopping(reader.item("early_stopping"), where);
  counters.stale_evaluations = stopping.integer("stale", 0);
  counters.stop_best = stopping.number_or_null("best");
  parsed.stamp.stop_of = stopping.item("of");
  stopping.finish();
  parsed.stamp.has_ema = reader.flag("ema");
  parsed.scaler = reader.item("scaler");
  parsed.stamp.identity = reader.item("identity");
  parsed.stamp.data = reader.item("data");
  parsed.stamp.exactness = reader.item("exactness");
  parsed.stamp.bucket_layout = reader.item("bucket_layout");
  parsed.stamp.optimizer = reader.item("optimizer");
  reader.finish();
  return parsed;
}

Json optimizer_items(const Optimizer& optimizer) {
  std::set<std::string> items;
  for (const auto& [name, tensor] : optimizer.state()) items.insert(name.substr(name.rfind('/') + 1));
  return items;
}

StateStamp restore(TrainState& state, const LoadedCheckpoint& checkpoint) {
  ParsedState parsed = parse_train_state(checkpoint.state, checkpoint.path);
  const NamedTensors model = model_tensors(*state.model);
  const bool same_optimizer = parsed.stamp.optimizer == optimizer_items(*state.optimizer);
  const NamedTensors optimizer = same_optimizer ? state.optimizer->state() : NamedTensors{};
  const NamedTensors averages = state.ema && parsed.stamp.has_ema ? state.ema->state() : NamedTensors{};
  const auto [saved_averages, saved_optimizer] = split_averages(checkpoint.optimizer);
  std::vector<std::string> problems = differences(model, checkpoint.model, "model.safetensors");
  const auto compare = [&](const NamedTensors& wanted, const Tensors& saved) {
    const std::vector<std::string> more = differences(wanted, saved, "optimizer.safetensors");
    problems.insert(problems.end(), more.begin(), more.end());
  };
  if (same_optimizer) compare(optimizer, saved_optimizer);
  if (!averages.empty()) compare(averages, saved_averages);
  if (state.scaler.enabled() == parsed.scaler.is_null())
    problems.push_back("state.json: \"scaler\" does not fit the precision");
  refuse(problems, checkpoint.path);
  if (state.scaler.enabled()) state.scaler.load(parsed.scaler);  // before the tensors: it may refuse
  copy_all(model, checkpoint.model);
  copy_all(optimizer, saved_optimizer);
  copy_all(averages, saved_averages);
  if (state.ema && averages.empty()) state.ema->reset();
  state.counters = parsed.counters;
  return parsed.stamp;
}

bool restore_model(const Model& model, Ema* ema, const LoadedCheckpoint& checkpoint) {
  const NamedTensors tensors = model_tensors(model);
  const Tensors saved = split_averages(checkpoint.optimizer).first;
  const NamedTensors averages = ema != nullptr && !saved.empty() ? ema->state() : NamedTensors{};
  std::vector<std::string> problems = differences(tensors, checkpoint.model, "model.safetensors");
  if (!averages.empty()) {
    const std::vector<std::string> more = differences(averages, saved, "optimizer.safetensors");
    problems.insert(problems.end(), more.begin(), more.end());
  }
  refuse(problems, checkpoint.path);
  copy_all(tensors, checkpoint.model);
  copy_all(averages, saved);
  return !averages.empty();
}

void check_same_run(const StateStamp& saved, const StateStamp& now, const std::string& where) {
  if (saved.identity != now.identity) {
    throw Error(ErrorKind::kSpec,
                "the run cannot continue from this checkpoint: " + changes_text(saved.identity, now.identity), where,
                "restore these values, choose another output directory, or start over with --resume never");
  }
  if (saved.data != now.data) {
    throw Error(ErrorKind::kData,
                "the training data changed since this checkpoint was saved: " + changes_text(saved.data, now.data),
                where, "restore the data, choose another output directory, or start over with --resume never");
  }
}

}  // namespace gputrain

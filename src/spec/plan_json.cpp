// RunPlan <-> JSON. Each struct is described once (`fields_of`), for both directions, so that the two cannot disagree.
#include <algorithm>
#include <type_traits>

#include "spec/plan.h"
#include "util/error.h"
#include "util/text.h"

namespace gputrain {
namespace {

template <class A>
void fields_of(A& a, auto& v, const HostPlan*) {
  a("name", v.name), a("slots", v.slots), a("gpus", v.gpus), a("cores", v.cores);
}

template <class A>
void fields_of(A& a, auto& v, const LaunchPlan*) {
  a("hosts", v.hosts), a("world_size", v.world_size), a("backend", v.backend), a("omp_threads", v.omp_threads);
  a("grace", v.grace), a("max_restarts", v.max_restarts), a("max_duration", v.max_duration), a("lease", v.lease);
}

template <class A>
void fields_of(A& a, auto& v, const Named*) {
  a("name", v.name), a("args", v.args);
}

template <class A>
void fields_of(A& a, auto& v, const ModelPlan*) {
  a("name", v.name), a("args", v.args), a("torchscript", v.torchscript), a("plugin", v.plugin), a("init", v.init);
  a("init_strict", v.init_strict), a("init_ignore", v.init_ignore), a("freeze", v.freeze);
}

template <class A>
void fields_of(A& a, auto& v, const LossPlan*) {
  a("label_smoothing", v.label_smoothing), a("ignore_index", v.ignore_index), a("dice_weight", v.dice_weight);
  a("distance", v.distance);
}

template <class A>
void fields_of(A& a, auto& v, const MixPlan*) {
  a("mixup", v.mixup), a("cutmix", v.cutmix);
}

template <class A>
void fields_of(A& a, auto& v, const ParameterRules::LrScale*) {
  a("pattern", v.pattern), a("scale", v.scale);
}

template <class A>
void fields_of(A& a, auto& v, const ParameterRules*) {
  a("decay_norm_and_bias", v.decay_norm_and_bias), a("lr_scales", v.lr_scales);
}

template <class A>
void fields_of(A& a, auto& v, const EarlyStoppingPlan*) {
  a("metric", v.metric), a("patience", v.patience), a("min_delta", v.min_delta);
  a("larger_is_better", v.larger_is_better);
}

template <class A>
void fields_of(A& a, auto& v, const DataSourcePlan*) {
  a("format", v.format), a("args", v.args);
}

template <class A>
void fields_of(A& a, auto& v, const DataPlan*) {
  a("train", v.train), a("val", v.val), a("train_transforms", v.train_transforms),
      a("val_transforms", v.val_transforms);
  a("tail", v.tail), a("workers", v.workers), a("prefetch", v.prefetch), a("pin_memory", v.pin_memory);
}

template <class A>
void fields_of(A& a, auto& v, const TrainPlan*) {
  a("epochs", v.epochs), a("max_steps", v.max_steps), a("global_batch", v.global_batch),
      a("micro_batch", v.micro_batch);
  a("precision", v.precision), a("clip_grad_norm", v.clip_grad_norm), a("clip_grad_value", v.clip_grad_value);
  a("ema_decay", v.ema_decay), a("channels_last", v.channels_last), a("deterministic", v.deterministic);
}

template <class A>
void fields_of(A& a, auto& v, const SchedulePlan*) {
  a("name", v.name), a("warmup", v.warmup), a("warmup_start", v.warmup_start), a("args", v.args);
  a("granularity", v.granularity);
}

template <class A>
void fields_of(A& a, auto& v, const Every*) {
  a("length", v.length), a("duration", v.duration);
}

template <class A>
void fields_of(A& a, auto& v, const CheckpointPlan*) {
  a("every", v.every), a("keep_last", v.keep_last), a("keep_best", v.keep_best), a("best_is_larger", v.best_is_larger);
}

template <class A>
void fields_of(A& a, auto& v, const RunPlan*) {
  a("name", v.name), a("output", v.output), a("seed", v.seed), a("task", v.task), a("launch", v.launch),
      a("model", v.model);
  a("data", v.data), a("mix", v.mix), a("loss", v.loss), a("train", v.train), a("optimizer", v.optimizer);
  a("parameters", v.parameters), a("schedule", v.schedule), a("evaluate", v.evaluate), a("top_k", v.top_k);
  a("early_stopping", v.early_stopping), a("checkpoint", v.checkpoint), a("log", v.log), a("profile", v.profile),
      a("reducer", v.reducer), a("smoke", v.smoke);
}

[[noreturn]] void bad_plan(const std::string& what) {
  throw Error(ErrorKind::kInternal, "the plan " + what, "", "gputrain and gputrain-worker must be of the same version");
}

template <class T>
inline constexpr bool is_plain = std::is_arithmetic_v<T> || std::is_same_v<T, std::string> || std::is_same_v<T, Json>;
template <class T>
inline constexpr bool is_optional = false;
template <class T>
inline constexpr bool is_optional<std::optional<T>> = true;
template <class T>
inline constexpr bool is_vector = false;
template <class T>
inline constexpr bool is_vector<std::vector<T>> = true;

template <class T>
Json encode(const T& value);

struct Writer {
  Json json = Json::object();
  template <class T>
  void operator()(const char* key, const T& value) {
    json[key] = encode(value);
  }
};

template <class T>
Json encode(const T& value) {
  if constexpr (std::is_same_v<T, Milliseconds>) {
    return format_duration(value);
  } else if constexpr (std::is_same_v<T, Length>) {
    return format_length(value);
  } else if constexpr (is_plain<T>) {
    return value;
  } else if constexpr (std::is_enum_v<T>) {
    return std::string(to_string(value));
  } else if constexpr (is_optional<T>) {
    return value ? encode(*value) : Json();
  } else if constexpr (is_vector<T>) {
    Json list = Json::array();
    for (const auto& item : value) list.push_back(encode(item));
    return list;
  } else {
    Writer writer;
    fields_of(writer, value, static_cast<const T*>(nullptr));
    return writer.json;
  }
}

template <class T>
T decode(const Json& json, const std::string& path);

class Reader {
 public:
  Reader(const Json& json, const std::string& path) : json_(json), path_(path) {
    if (!json.is_object()) bad_plan("has no object at \"" + path + "\"");
  }

  template <class T>
  void operator()(const char* key, T& value) {
    const auto found = json_.find(key);
    if (found == json_.end()) bad_plan("lacks \"" + path_ + key + "\"");
    value = decode<T>(*found, path_ + key);
    known_.push_back(key);
  }

  void finish() const {
    for (const auto& [key, value] : json_.items()) {
      if (std::find(known_.begin(), known_.end(), key) == known_.end())
        bad_plan("has an unknown item \"" + path_ + key + "\"");
    }
  }

 private:
  const Json& json_;
  std::string path_;
  std::vector<std::string> known_;
};

template <class T>
T decode_enum(const Json& json, const std::string& path) {
  for (int i = 0; i < 5; ++i) {
    const T value = static_cast<T>(i);
    if (!to_string(value).empty() && json == std::string(to_string(value))) return value;
  }
  bad_plan("has an unknown word at \"" + path + "\"");
}

template <class T>
T decode_text(const Json& json, const std::string& path, std::optional<T> (*parse)(std::string_view)) {
  if (json.is_string()) {
    if (auto value = parse(json.get<std::string>())) return *value;
  }
  bad_plan("has no duration or length at \"" + path + "\"");
}

template <class T>
T decode_plain(const Json& json, const std::string& path) {
  if constexpr (std::is_same_v<T, Json>) {
    return json;
  } else {
    const bool fits = std::is_same_v<T, bool>          ? json.is_boolean()
                      : std::is_same_v<T, std::string> ? json.is_string()
                      : std::is_integral_v<T>          ? json.is_number_integer()
                                                       : json.is_number();
    if (!fits) bad_plan("has another type than expected at \"" + path + "\"");
    return json.get<T>();
  }
}

template <class T>
T decode(const Json& json, const std::string& path) {
  if constexpr (std::is_same_v<T, Milliseconds>) {
    return decode_text<T>(json, path, parse_duration);
  } else if constexpr (std::is_same_v<T, Length>) {
    return decode_text<T>(json, path, parse_length);
  } else if constexpr (is_plain<T>) {
    return decode_plain<T>(json, path);
  } else if constexpr (std::is_enum_v<T>) {
    return decode_enum<T>(json, path);
  } else if constexpr (is_optional<T>) {
    return json.is_null() ? T() : T(decode<typename T::value_type>(json, path));
  } else if constexpr (is_vector<T>) {
    if (!json.is_array()) bad_plan("has no list at \"" + path + "\"");
    T list;
    for (const auto& item : json) list.push_back(decode<typename T::value_type>(item, path));
    return list;
  } else {
    T value;
    Reader reader(json, path + ".");
    fields_of(reader, value, static_cast<const T*>(nullptr));
    reader.finish();
    return value;
  }
}

}  // namespace

Json to_json(const RunPlan& plan) {
  return encode(plan);
}

RunPlan run_plan_from_json(const Json& json) {
  return decode<RunPlan>(json, "plan");
}

}  // namespace gputrain

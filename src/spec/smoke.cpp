// The spec of `launch --smoke`.
#include <algorithm>

#include "spec/catalog/catalog.h"
#include "spec/data_checks.h"
#include "spec/spec.h"

namespace gputrain {
namespace {

constexpr int64_t kRanks = 2, kSteps = 3, kSamplesPerRank = 4;

constexpr std::string_view kDefaultModel = R"(
name: smoke
model: {name: mlp}
data: {train: {format: synthetic, samples: 24, shape: [1, 28, 28], num_classes: 10}}
train: {max_steps: 3, global_batch: 8}
optimizer: {name: adamw, lr: 1e-3}
)";

// What base's data give after the transforms, else what the model is made for.
Json synthetic_shape(const Spec& base) {
  if (const auto dims = sample_shape(base, "train").dims) return *dims;
  if (const Setting* features = catalog_argument(base, "in_features")) return Json::array({features->value});
  const CatalogEntry* model = find_entry(CatalogKind::kModel, base.at("model.name").get<std::string>());
  if (model == nullptr) {
    throw base.error_at("data.train", "a smoke run cannot know what samples this model takes", ErrorKind::kSpec,
                        "give data.train in a format that has its shape in the spec: raw or synthetic");
  }
  std::vector<int64_t> dims = model->sample_shape;
  if (const Setting* context = catalog_argument(base, "context")) {
    constexpr int64_t kEnough = 64;  // tokens: all of GPT-2's would take gigabytes of logits
    dims = {std::min(kEnough, context->value.get<int64_t>())};
  }
  if (const Setting* channels = catalog_argument(base, "in_channels")) dims[0] = channels->value.get<int64_t>();
  if (const Setting* size = catalog_argument(base, "image_size")) dims[1] = dims[2] = size->value.get<int64_t>();
  return dims;
}

// Classes or values of a target: what the model's arguments say, else the data, else what fits most.
Json class_count(const Spec& base) {
  for (const char* argument : {"num_classes", "vocab_size"}) {
    if (const Setting* classes = catalog_argument(base, argument)) return classes->value;
  }
  const Json& source = base.at("data.train");
  if (source.contains("num_classes")) return source["num_classes"];
  if (base.at("task") == "regression" && source["format"] == "raw")
    return *element_count(source["targets"]["shape"].get<std::vector<int64_t>>());
  return 2;
}

std::string synthetic_targets(const std::string& task) {
  if (task == "language_model") return "tokens";
  if (task == "segmentation") return "mask";
  return task == "regression" ? "values" : "class";
}

// Which mean nothing in three steps.
bool has_lengths(const std::string& schedule) {
  const CatalogEntry* entry = find_entry(CatalogKind::kSchedule, schedule);
  return std::ranges::any_of(entry->args, [](const CatalogArg& arg) {
    return arg.type == ArgType::kLength || arg.type == ArgType::kLengthList;
  });
}

}  // namespace

Spec smoke_spec(const Spec* base) {
  Spec spec = base != nullptr ? *base : parse_spec({std::string(kDefaultModel), "--smoke", {}});
  auto stronger = [&](std::string_view key) {
    const OriginKind kind = spec.origin_of(key).kind;
    return spec.given(key) && (kind == OriginKind::kSet || kind == OriginKind::kFlag);
  };
  const bool own_size = stronger("launch.nproc_per_node") || stronger("launch.hosts");
  auto set = [&](std::string_view key, Json value) {
    if (!stronger(key)) spec.set(key, std::move(value), {OriginKind::kSmoke, "--smoke", 0, 0});
  };
  const Json shape = synthetic_shape(spec);
  const int64_t ranks = spec.at("launch.nproc_per_node").is_number() && own_size
                            ? spec.at("launch.nproc_per_node").get<int64_t>()
                            : kRanks;
  if (!own_size) set("launch.hosts", Json::array({"local"})), set("launch.nproc_per_node", kRanks);
  set("launch.max_restarts", 0);
  set("train.global_batch", kSamplesPerRank * ranks);
  set("train.micro_batch", "auto");
  set("train.epochs", "none");
  set("train.max_steps", kSteps);
  const int64_t samples = kSteps * spec.at("train.global_batch").get<int64_t>();
  spec.set("data.train",
           {{"format", "synthetic"},
            {"samples", samples},
            {"shape", shape},
            {"num_classes", class_count(spec)},
            {"targets", synthetic_targets(spec.at("task").get<std::string>())}},
           {OriginKind::kSmoke, "--smoke", 0, 0});
  spec.set("data.val", Json(), {OriginKind::kSmoke, "--smoke", 0, 0});
  spec.set("data.transforms.train", Json::array(), {OriginKind::kSmoke, "--smoke", 0, 0});
  spec.set("data.transforms.val", Json::array(), {OriginKind::kSmoke, "--smoke", 0, 0});
  if (!stronger("schedule.name") && has_lengths(spec.at("schedule.name").get<std::string>())) {
    spec.erase_under("schedule");
    set("schedule.name", "constant");
  }
  set("schedule.warmup", "none");
  set("evaluate.every", "never");
  set("checkpoint.every", "never");
  set("checkpoint.keep_last", 1);
  set("checkpoint.keep_best", "none");
  set("evaluate.top_k", "none");
  set("early_stopping.metric", "none");
  set("early_stopping.patience", 5);
  set("early_stopping.min_delta", 0);
  set("log.profile", "none");
  set("log.every", "1 step");
  spec.set_smoke();
  return spec;
}

}  // namespace gputrain

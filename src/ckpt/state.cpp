#include "ckpt/state.h"

#include "util/error.h"
#include "util/text.h"

namespace gputrain {
namespace {

constexpr char kMetric[] = "metric";

std::optional<CheckpointMetric> parse_metric(const Json& json) {
  if (json.is_null()) return std::nullopt;
  return CheckpointMetric{json.at("name").get<std::string>(), number_from_json(json.at("value")),
                          json.at("larger_is_better").get<bool>(), json.at("measured_on")};
}

}  // namespace

bool comparable(const CheckpointMetric& a, const CheckpointMetric& b) {
  return a.name == b.name && a.measured_on == b.measured_on;
}

std::string state_text(const StateFile& file) {
  if (!file.state.is_object() || file.state.contains(kMetric)) {
    throw Error(ErrorKind::kInternal, "a checkpoint's state must be an object without the item \"metric\"");
  }
  Json json = file.state;
  json[kMetric] = nullptr;
  if (file.metric) {
    json[kMetric] = {{"name", file.metric->name},
                     {"value", json_number(file.metric->value)},
                     {"larger_is_better", file.metric->larger_is_better},
                     {"measured_on", file.metric->measured_on}};
  }
  std::string text = json.dump(2) + "\n";
  // NaN is written as null: caught here, not by the resume that misses it.
  if (parse_json(text, "state") != json) {
    throw Error(ErrorKind::kInternal,
                "a checkpoint's state holds a NaN or infinite number; json_number() stores those");
  }
  return text;
}

StateFile parse_state(const std::string& text, const std::string& where) {
  try {
    StateFile file{parse_json(text, where), std::nullopt};
    file.metric = parse_metric(file.state.at(kMetric));
    file.state.erase(kMetric);
    return file;
  } catch (const std::exception& problem) {
    throw Error(ErrorKind::kCheckpoint, "not a valid state file: " + printable(problem.what()), where);
  }
}

}  // namespace gputrain

#include "monitor/record.h"

namespace gputrain {

Json to_json(const StepRecord& record) {
  return {{"kind", "step"},
          {"step", record.step},
          {"updates", record.updates},
          {"epoch", json_number(record.epoch)},
          {"loss", json_number(record.loss)},
          {"lr", json_number(record.lr)},
          {"grad_norm", json_number(record.grad_norm)},
          {"samples_per_s", json_number(record.samples_per_s)},
          {"data_wait_s", json_number(record.data_wait_s)},
          {"step_s", json_number(record.step_s)},
          {"scale", json_number(record.scale)},
          {"skipped", record.skipped}};
}

StepRecord step_record_from_json(const Json& json) {
  auto number = [&](const char* key) { return json.contains(key) ? number_from_json(json[key]) : NAN; };
  auto integer = [&](const char* key) {
    return json.contains(key) && json[key].is_number_integer() ? json[key].get<int64_t>() : int64_t{0};
  };
  StepRecord record;
  record.step = integer("step");
  record.updates = integer("updates");
  record.epoch = number("epoch");
  record.loss = number("loss");
  record.lr = number("lr");
  record.grad_norm = number("grad_norm");
  record.samples_per_s = number("samples_per_s");
  record.data_wait_s = number("data_wait_s");
  record.step_s = number("step_s");
  record.scale = number("scale");
  record.skipped = integer("skipped");
  return record;
}

Json to_json(const EvalRecord& record) {
  Json json = {{"kind", "eval"}, {"step", record.step}, {"loss", json_number(record.loss)}};
  for (const auto& [name, value] : record.metrics.items()) json[name] = value;
  json["samples"] = record.samples;
  json["seconds"] = json_number(record.seconds);
  return json;
}

Json to_json(const CheckpointRecord& record) {
  return {{"kind", "checkpoint"},
          {"step", record.step},
          {"path", record.path},
          {"bytes", record.bytes},
          {"seconds", json_number(record.seconds)},
          {"why", record.why}};
}

CheckpointRecord checkpoint_record_from_json(const Json& json) {
  CheckpointRecord record;
  if (!json.is_object()) return record;
  auto integer = [&](const char* key) {
    return json.contains(key) && json[key].is_number_integer() ? json[key].get<int64_t>() : int64_t{0};
  };
  auto text = [&](const char* key) {
    return json.contains(key) && json[key].is_string() ? json[key].get<std::string>() : std::string();
  };
  record.step = integer("step");
  record.path = text("path");
  record.bytes = integer("bytes");
  record.seconds = json.contains("seconds") ? number_from_json(json["seconds"]) : 0;
  record.why = text("why");
  return record;
}

Json warning_record(const std::string& text) {
  return {{"kind", "warning"}, {"text", text}};
}

}  // namespace gputrain

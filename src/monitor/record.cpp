#include "monitor/record.h"

namespace gputrain {

// Once a step: items are appended, where a list of pairs would be built, copied and searched.
Json to_json(const StepRecord& record) {
  Json json = Json::object();
  auto& items = json.get_ref<Json::object_t&>();
  items.reserve(20);
  items.emplace_back("kind", "step");
  items.emplace_back("step", record.step);
  items.emplace_back("updates", record.updates);
  items.emplace_back("epoch", json_number(record.epoch));
  items.emplace_back("loss", json_number(record.loss));
  items.emplace_back("lr", json_number(record.lr));
  items.emplace_back("grad_norm", json_number(record.grad_norm));
  items.emplace_back("samples_per_s", json_number(record.samples_per_s));
  items.emplace_back("data_wait_s", json_number(record.data_wait_s));
  items.emplace_back("step_s", json_number(record.step_s));
  items.emplace_back("scale", json_number(record.scale));
  items.emplace_back("skipped", record.skipped);
  items.emplace_back("forward_s", json_number(record.forward_s));
  items.emplace_back("backward_s", json_number(record.backward_s));
  items.emplace_back("exposed_communication_s", json_number(record.exposed_communication_s));
  items.emplace_back("optimizer_s", json_number(record.optimizer_s));
  items.emplace_back("other_s", json_number(record.other_s));
  items.emplace_back("checkpoint_s", json_number(record.checkpoint_s));
  items.emplace_back("mfu", record.mfu ? json_number(*record.mfu) : Json(nullptr));
  return json;
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
  record.forward_s = number("forward_s");
  record.backward_s = number("backward_s");
  record.exposed_communication_s = number("exposed_communication_s");
  record.optimizer_s = number("optimizer_s");
  record.other_s = number("other_s");
  record.checkpoint_s = number("checkpoint_s");
  if (json.contains("mfu") && json["mfu"].is_number()) record.mfu = json["mfu"].get<double>();
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

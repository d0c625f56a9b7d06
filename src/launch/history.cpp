#include "launch/history.h"

#include <algorithm>

#include "monitor/journal_reader.h"
#include "sys/fs.h"
#include "util/foreign_json.h"
#include "util/json.h"

namespace gputrain {
namespace {

template <class T>
T member(const Json& json, const char* key, T fallback) {
  if (!json.is_object() || !json.contains(key)) return fallback;
  try {
    return json[key].get<T>();
  } catch (const Json::exception&) {
    return fallback;
  }
}

void take_checkpoint(int64_t step, RunHistory& history) {
  if (step > history.row.newest_checkpoint) history.row = {step, {}};
}

// As the controller counts: another plan and `--resume never` begin anew (the latter once checkpoints were moved aside,
// so not when set-up failed), and what an attempt resumed from is a checkpoint.
void take_start(const Json& json, RunHistory& history) {
  const auto plan_hash = member<std::string>(json, "plan_hash", "");
  const bool began = !member(json, "set_up_failed", false);
  const bool other_plan = !history.plan_hash.empty() && plan_hash != history.plan_hash;
  if (other_plan || (began && member<std::string>(json, "resume", "") == "never")) history.row = {};
  history.plan_hash = plan_hash;
  const auto resumed_step = member<int64_t>(json, "resumed_step", 0);
  if (resumed_step > 0) take_checkpoint(resumed_step, history);
  if (began) history.saved_step = resumed_step > 0 ? resumed_step : -1;
}

void take_line(std::string_view line, RunHistory& history) {
  if (is_step_line(line)) return;  // says nothing here
  const Json json = parse_foreign_json(line);
  const auto kind = member<std::string>(json, "kind", "");
  if (kind.empty()) return;
  history.last_attempt = std::max(history.last_attempt, member(json, "attempt", 0));
  if (kind == "start") {
    take_start(json, history);
    if (history.run_id.empty()) history.run_id = member<std::string>(json, "run_id", "");
  } else if (kind == "failure" && member(json, "counts", false)) {
    history.row.causes.push_back(member<std::string>(json, "cause", ""));
  } else if (kind == "checkpoint") {
    history.saved_step = member<int64_t>(json, "step", -1);
    take_checkpoint(history.saved_step, history);
  }
}

}  // namespace

bool is_step_line(std::string_view line) {
  return line.find("\"kind\":\"step\"") != std::string_view::npos;
}

RunHistory read_history(const std::string& output) {
  FileSystem& fs = real_file_system();
  const std::string path = output + "/events.jsonl";
  RunHistory history;
  history.run_id = member<std::string>(parse_foreign_json(first_line(fs, path)), "run_id", "");
  read_tail(fs, path, [&](std::string_view line) { take_line(line, history); });
  return history;
}

}  // namespace gputrain

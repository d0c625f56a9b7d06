#include "launch/history.h"

#include <algorithm>

#include "monitor/journal.h"
#include "sys/fs.h"
#include "util/json.h"

namespace gputrain {
namespace {

constexpr int64_t kTail = int64_t{64} << 20;
constexpr int64_t kHead = int64_t{64} << 10;

// Lines of the file's end, the first one perhaps cut.
std::string tail_of(FileSystem& fs, const std::string& path) {
  const int64_t size = fs.size(path);
  std::string text(static_cast<size_t>(std::min(size, kTail)), '\0');
  fs.read_at(path, size - static_cast<int64_t>(text.size()), text);
  return text;
}

Json first_line(FileSystem& fs, const std::string& path) {
  std::string text(static_cast<size_t>(std::min(fs.size(path), kHead)), '\0');
  fs.read_at(path, 0, text);
  return Json::parse(text.substr(0, text.find('\n')), nullptr, false);
}

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
}

// What a line says, without parsing the many that say nothing here.
void take_line(std::string_view line, RunHistory& history) {
  constexpr std::string_view kStep = "\"kind\":\"step\"";
  if (line.find(kStep) != std::string_view::npos) return;
  const Json json = Json::parse(line, nullptr, false);
  const auto kind = member<std::string>(json, "kind", "");
  if (kind.empty()) return;
  history.last_attempt = std::max(history.last_attempt, member(json, "attempt", 0));
  if (kind == "start") {
    take_start(json, history);
    if (history.run_id.empty()) history.run_id = member<std::string>(json, "run_id", "");
  } else if (kind == "failure" && member(json, "counts", false)) {
    history.row.causes.push_back(member<std::string>(json, "cause", ""));
  } else if (kind == "checkpoint") {
    take_checkpoint(member<int64_t>(json, "step", -1), history);
  }
}

}  // namespace

RunHistory read_history(const std::string& output) {
  FileSystem& fs = real_file_system();
  const std::string path = output + "/events.jsonl";
  RunHistory history;
  if (!fs.exists(path)) return history;
  history.run_id = member<std::string>(first_line(fs, path), "run_id", "");
  const std::string text = tail_of(fs, path);
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    take_line(std::string_view(text).substr(begin, end - begin), history);
    begin = end + 1;
  }
  return history;
}

}  // namespace gputrain

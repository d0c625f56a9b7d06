#include "launch/run_directory.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <string>
#include <system_error>
#include <vector>

#include "launch/lock.h"
#include "monitor/journal_reader.h"
#include "util/error.h"
#include "util/foreign_json.h"

namespace gputrain {
namespace {

constexpr const char* kReplaced[] = {"checkpoints", "events.jsonl", "plan.json", "result.json", "spec.yaml"};

bool has_lock(const std::string& output) {
  try {
    return read_lock(output).has_value();
  } catch (const Error&) {  // something else of that name
    return false;
  }
}

bool has_events(FileSystem& fs, const std::string& output) {
  const Json event = parse_foreign_json(first_line(fs, output + "/events.jsonl"));
  return event.is_object() && event.contains("kind");
}

bool has_plan(FileSystem& fs, const std::string& output) {
  const std::string path = output + "/plan.json";
  const Json plan = fs.exists(path) ? parse_foreign_json(fs.read(path)) : Json();
  return plan.is_object() && plan.contains("launch") && plan.contains("train");
}

bool has_checkpoints(FileSystem& fs, const std::string& output) {
  const auto names = fs.list(output + "/checkpoints");
  return std::any_of(names.begin(), names.end(), [&](const auto& name) {
    return name.starts_with("step-") && fs.exists(output + "/checkpoints/" + name + "/manifest.json");
  });
}

// Also a freshly made file system, with nothing but its lost+found.
bool is_empty_directory(FileSystem& fs, const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored)) return false;
  const auto names = fs.list(path);
  return std::all_of(names.begin(), names.end(), [](const auto& name) { return name == "lost+found"; });
}

}  // namespace

std::string foreign_entry(FileSystem& fs, const std::string& output) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(output, ignored)) return "";  // what else it may be is told when it is locked
  const auto names = fs.list(output);
  const auto replaced = std::find_if(names.begin(), names.end(), [&](const auto& name) {
    return std::find(std::begin(kReplaced), std::end(kReplaced), name) != std::end(kReplaced) &&
           !is_empty_directory(fs, output + "/" + name);
  });
  const bool ours = replaced == names.end() || has_lock(output) || has_events(fs, output) || has_plan(fs, output) ||
                    has_checkpoints(fs, output);
  return ours ? "" : *replaced;
}

}  // namespace gputrain

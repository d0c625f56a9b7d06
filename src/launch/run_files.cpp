#include "launch/run_files.h"

#include <cstdio>
#include <filesystem>
#include <system_error>

#include "launch/fnv.h"
#include "util/error.h"

namespace gputrain {
namespace {

// Leaves of an object as {"train.epochs": 5}; lists are leaves.
void flatten(const Json& json, const std::string& prefix, Json& leaves) {
  if (!json.is_object() || json.empty()) {
    leaves[prefix] = json;
    return;
  }
  for (const auto& [key, value] : json.items()) flatten(value, prefix.empty() ? key : prefix + "." + key, leaves);
}

Json difference(const Json& before, const Json& now) {
  Json old_leaves = Json::object(), new_leaves = Json::object(), changes = Json::array();
  flatten(before, "", old_leaves);
  flatten(now, "", new_leaves);
  for (const auto& [key, value] : new_leaves.items()) {
    const Json old_value = old_leaves.contains(key) ? old_leaves[key] : Json();
    if (old_value != value) changes.push_back({{"key", key}, {"from", old_value}, {"to", value}});
  }
  for (const auto& [key, value] : old_leaves.items()) {
    if (!new_leaves.contains(key)) changes.push_back({{"key", key}, {"from", value}, {"to", nullptr}});
  }
  return changes;
}

}  // namespace

RunFiles::RunFiles(FileSystem& fs, std::string output, Clock& clock)
    : fs_(fs), output_(std::move(output)), clock_(clock), start_(clock.now()) {}

Json RunFiles::plan_changes(const Json& plan) const {
  const std::string path = output_ + "/plan.json";
  if (!fs_.exists(path)) return Json::array();
  const Json before = Json::parse(fs_.read(path), nullptr, false);
  return before.is_object() ? difference(before, plan) : Json::array();
}

std::string RunFiles::begin(const StartFiles& files, Json start, int attempt) {
  try {
    if (files.move_checkpoints_aside) {
      const std::string moved_to = move_checkpoints_aside();
      if (!moved_to.empty()) start["checkpoints_moved_to"] = moved_to;
    }
    if (!journal_) {
      replace("spec.yaml", files.spec_text);
      replace("plan.json", files.plan.dump(2) + "\n");
      open_journal();
    }
    const std::string line = journal_->append(start, attempt);
    journal_->sync();
    fs_.remove_all(output_ + "/result.json");  // an earlier launch's: from here on it would be untrue
    fs_.sync_directory(output_);
    undo_.clear();
    return line;
  } catch (...) {
    undo_all();
    throw;
  }
}

void RunFiles::replace(const std::string& name, const std::string& text) {
  const std::string path = output_ + "/" + name;
  const bool existed = fs_.exists(path);
  const std::string before = existed ? fs_.read(path) : "";
  undo_.push_back([this, path, existed, before] {
    if (existed) {
      write_file_atomically(fs_, path, before);
    } else {
      fs_.remove_all(path);
    }
  });
  write_file_atomically(fs_, path, text);
}

std::string RunFiles::move_checkpoints_aside() {
  const std::string from = output_ + "/checkpoints";
  if (fs_.list(from).empty()) return "";
  int number = 1;
  while (fs_.exists(from + ".old-" + std::to_string(number))) ++number;
  const std::string to = from + ".old-" + std::to_string(number);
  fs_.rename(from, to);
  undo_.push_back([this, from, to] { fs_.rename(to, from); });
  return "checkpoints.old-" + std::to_string(number);
}

void RunFiles::open_journal() {
  const std::string path = output_ + "/events.jsonl";
  const bool existed = fs_.exists(path);
  const int64_t size = existed ? fs_.size(path) : 0;
  undo_.push_back([this, path, existed, size] {
    journal_.reset();
    std::error_code ignored;
    if (existed) {
      std::filesystem::resize_file(path, static_cast<uintmax_t>(size), ignored);
    } else {
      fs_.remove_all(path);
    }
  });
  journal_ = std::make_unique<Journal>(path, clock_, start_);
}

void RunFiles::undo_all() {
  for (; !undo_.empty(); undo_.pop_back()) {
    try {
      undo_.back()();
    } catch (const Error&) {  // the first error is the one to tell
    }
  }
}

void RunFiles::write_result(const Json& result) {
  write_file_atomically(fs_, output_ + "/result.json",
                        result.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

std::string plan_hash(const Json& plan) {
  Json asked = plan;
  if (asked.is_object()) asked.erase("launch");
  return fnv_hex(dump_line(asked));
}

}  // namespace gputrain

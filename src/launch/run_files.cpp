#include "launch/run_files.h"

#include <cstdio>
#include <filesystem>
#include <system_error>

#include "launch/fnv.h"
#include "spec/changes.h"
#include "util/error.h"

namespace gputrain {
RunFiles::RunFiles(FileSystem& fs, std::string output, Clock& clock)
    : fs_(fs), output_(std::move(output)), clock_(clock), start_(clock.now()) {}

Json RunFiles::changes(const std::string& spec_text) const {
  const std::string path = output_ + "/spec.yaml";
  return fs_.exists(path) ? spec_changes(fs_.read(path), spec_text) : Json::array();
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

// What contradicts itself among values that are each right, as far as it does not depend on the machine (that is
// resolve's part).
#include <algorithm>
#include <filesystem>

#include "spec/builder.h"
#include "spec/data_checks.h"
#include "spec/task_checks.h"
#include "util/text.h"
#include "util/units.h"

namespace gputrain {
namespace {

// Reads settings that may be absent because they were wrong.
class Reader {
 public:
  explicit Reader(const Spec& spec) : spec_(spec) {}
  const Json* find(std::string_view key) const {
    const Setting* setting = spec_.find(key);
    return setting == nullptr ? nullptr : &setting->value;
  }
  bool has_text(std::string_view key, std::string_view text) const {
    const Json* value = find(key);
    return value != nullptr && value->is_string() && value->get<std::string>() == text;
  }
  std::optional<int64_t> integer(std::string_view key) const {
    const Json* value = find(key);
    if (value == nullptr || !value->is_number_integer()) return std::nullopt;
    return value->get<int64_t>();
  }

 private:
  const Spec& spec_;
};

void check_name(const Reader& reader, std::vector<Problem>* problems) {
  const Json* name = reader.find("name");
  if (name == nullptr) return;
  const auto text = name->get<std::string>();
  constexpr size_t kLongest = 200;  // it is part of file names
  if (text.size() > kLongest) {
    problems->push_back({{}, "name", "expected at most 200 bytes, got " + std::to_string(text.size()), ""});
  }
  if (text.find('/') != std::string::npos || text == "." || text == "..") {
    problems->push_back(
        {{}, "name", "expected a word without slashes, got \"" + printable(text) + "\"", "paths belong in output"});
  }
}

// Text is taken as it stands: what a shell would make of it must not become a directory of that name.
void check_output(const Reader& reader, std::vector<Problem>* problems) {
  const Json* output = reader.find("output");
  if (output == nullptr) return;
  const auto text = output->get<std::string>();
  if (text.starts_with('~')) {
    problems->push_back({{},
                         "output",
                         "~ is not expanded in a spec, got \"" + printable(text) + "\"",
                         "write the path out, or ./" + printable(text) + " for a directory of that name"});
  }
  if (std::filesystem::path(text).lexically_normal() == "/") {
    problems->push_back({{}, "output", "the root directory cannot be a run directory", "choose a directory below it"});
  }
}

void check_hosts(const Reader& reader, std::vector<Problem>* problems) {
  const Json* hosts = reader.find("launch.hosts");
  if (hosts == nullptr) return;
  for (size_t i = 0; i < hosts->size(); ++i) {
    const std::string key = "launch.hosts[" + std::to_string(i) + "]";
    const Json& host = (*hosts)[i];
    const std::string text =
        host.is_string() ? host.get<std::string>() : "{file: " + host["file"].get<std::string>() + "}";
    if (text != "local" && !text.starts_with("local:")) {
      problems->push_back(
          {{},
           key,
           "\"" + printable(text) + "\": hosts over ssh and host files are not supported yet by this version",
           "use local, local:N (N ranks), or [local, local] for two agents on this machine"});
    } else if (text != "local") {
      const auto slots = parse_int(std::string_view(text).substr(6));
      if (!slots || *slots < 1 || *slots > 4096) {
        problems->push_back({{}, key, "expected local:N with N from 1 to 4096, got \"" + printable(text) + "\"", ""});
      }
    }
  }
}

void check_length(const Reader& reader, std::vector<Problem>* problems) {
  if (reader.has_text("train.epochs", "none") && reader.has_text("train.max_steps", "none")) {
    problems->push_back(
        {{},
         "train",
         "the length of training is missing: give epochs, max_steps, or both (the first reached ends the run)",
         ""});
  }
}

// What is longer than the whole training would never come to its end; a warm-up must leave a step at its peak. Where
// the units differ only the workers know.
void check_within_training(const Reader& reader, const std::string& key, const std::string& text,
                           std::vector<Problem>* problems) {
  const auto length = parse_length(text);
  if (!length || length->unit == Length::Unit::kPercent) return;
  const std::string limit_key = length->unit == Length::Unit::kSteps ? "train.max_steps" : "train.epochs";
  const auto limit = reader.integer(limit_key);
  const bool warmup = key == "schedule.warmup";
  if (!limit || length->count <= *limit - (warmup && length->count > 0 ? 1 : 0)) return;
  problems->push_back({{},
                       key,
                       format_length(*length) + (warmup ? " does not end before" : " is longer than") +
                           " the whole training (" + limit_key + " is " + std::to_string(*limit) + ")",
                       ""});
}

void check_schedule(const Reader& reader, std::vector<Problem>* problems) {
  for (const std::string key : {"schedule.warmup", "schedule.first", "schedule.every", "schedule.decay"}) {
    const Json* value = reader.find(key);
    if (value != nullptr && value->is_string()) check_within_training(reader, key, value->get<std::string>(), problems);
  }
  if (const Json* milestones = reader.find("schedule.milestones"); milestones != nullptr && milestones->is_array()) {
    for (const auto& item : *milestones) {
      check_within_training(reader, "schedule.milestones", item.get<std::string>(), problems);
    }
  }
  if (reader.has_text("schedule.name", "one_cycle") && !reader.has_text("schedule.warmup", "none")) {
    problems->push_back(
        {{}, "schedule.warmup", "one_cycle rises by itself, up to its peak", "leave schedule.warmup out"});
  }
}

void check_evaluation(const Reader& reader, const Spec& spec, std::vector<Problem>* problems) {
  const Json* val = reader.find("data.val");
  const Json* every = reader.find("evaluate.every");
  const Json* keep_best = reader.find("checkpoint.keep_best");
  if (val == nullptr || every == nullptr) return;
  const bool never = *every == "never";
  if (val->is_null() && !never && spec.given("evaluate.every") && *every != "auto") {
    problems->push_back(
        {{}, "evaluate.every", "there is nothing to evaluate on: data.val is missing", "add data.val, or write never"});
  }
  const std::string why = val->is_null() ? "data.val is missing" : never ? "evaluate.every is never" : "";
  if (why.empty()) return;
  if (keep_best != nullptr && *keep_best != "none") {
    problems->push_back(
        {{}, "checkpoint.keep_best", "the best " + keep_best->get<std::string>() + " is never known: " + why, ""});
  }
  if (const Json* metric = reader.find("early_stopping.metric"); metric != nullptr && *metric != "none") {
    problems->push_back({{}, "early_stopping.metric", metric->get<std::string>() + " is never measured: " + why, ""});
  }
}

void check_profile(const Reader& reader, std::vector<Problem>* problems) {
  const Json* profile = reader.find("log.profile");
  if (profile == nullptr || !profile->is_array()) return;
  const auto first = (*profile)[0].get<int64_t>(), last = (*profile)[1].get<int64_t>();
  if (first > last) {
    problems->push_back({{}, "log.profile", "the first step comes after the last", "as in [10, 12]"});
  }
  constexpr int64_t kMost = 200;  // a trace has some 100 KB a step, and is written within a stop's grace
  if (last - first >= kMost) {
    problems->push_back({{},
                         "log.profile",
                         "traces at most " + std::to_string(kMost) + " steps, got " + std::to_string(last - first + 1),
                         "choose a few steps after the first ones"});
  }
  const auto limit = reader.integer("train.max_steps");
  if (limit && first > *limit) {
    problems->push_back(
        {{},
         "log.profile",
         "the run ends before step " + std::to_string(first) + " (train.max_steps is " + std::to_string(*limit) + ")",
         ""});
  }
}

void check_optimizer(const Reader& reader, std::vector<Problem>* problems) {
  const Json* nesterov = reader.find("optimizer.nesterov");
  const Json* momentum = reader.find("optimizer.momentum");
  if (nesterov != nullptr && momentum != nullptr && nesterov->get<bool>() && momentum->get<double>() == 0) {
    problems->push_back({{}, "optimizer.nesterov", "needs a momentum above 0", ""});
  }
}

}  // namespace

std::vector<Problem> check_spec(const Spec& spec) {
  std::vector<Problem> problems;
  const Reader reader(spec);
  check_name(reader, &problems);
  check_output(reader, &problems);
  check_hosts(reader, &problems);
  check_length(reader, &problems);
  check_schedule(reader, &problems);
  check_task(spec, &problems);
  check_evaluation(reader, spec, &problems);
  check_optimizer(reader, &problems);
  check_profile(reader, &problems);
  check_data(spec, &problems);
  return problems;
}

}  // namespace gputrain

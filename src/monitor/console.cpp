#include "monitor/console.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "monitor/record.h"
#include "monitor/text_out.h"
#include "spec/changes.h"
#include "util/foreign_json.h"
#include "util/text.h"
#include "util/units.h"

namespace gputrain {
namespace {

constexpr std::string_view kStepMember = "\"step\":";

// The value of "step" without parsing the line: records may come several hundred a second.
int64_t quick_step(std::string_view line) {
  const size_t at = line.find(kStepMember);
  if (at == std::string_view::npos) return -1;
  const std::string_view digits = line.substr(at + kStepMember.size());
  return parse_int(digits.substr(0, digits.find_first_of(",}"))).value_or(-1);
}

std::string padded(const std::string& text, size_t width) {
  return text.size() >= width ? text : std::string(width - text.size(), ' ') + text;
}

std::string fixed(const char* format, double value, size_t width) {
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, format, value);
  return padded(buffer, width);
}

std::string step_of_total(int64_t step, int64_t total) {
  const std::string all = std::to_string(total);
  return total > 0 ? padded(std::to_string(step), all.size()) + "/" + all : padded(std::to_string(step), 6);
}

// Share of the time since the previous record that rank 0 waited for data.
std::string wait_share(const StepRecord& record, int64_t steps) {
  const double elapsed = record.step_s * static_cast<double>(steps);
  if (!(elapsed > 0) || !(record.data_wait_s >= 0)) return padded("-", 6);
  return fixed("%.1f", std::min(100.0, 100 * record.data_wait_s / elapsed), 5) + "%";
}

std::string text_of(const Json& json, const char* key) {
  if (!json.contains(key)) return "-";
  const Json& value = json[key];
  if (value.is_string()) return value.get<std::string>();
  return value.is_number_float() ? format_number(value.get<double>()) : dump_line(value);
}

std::string start_line(const Json& json) {
  std::string text = "run " + text_of(json, "run_id") + ", attempt " + text_of(json, "attempt") + ": " +
                     plural(json.value("world_size", int64_t{0}), "rank");
  const int64_t step = json.value("resumed_step", int64_t{0});
  if (step <= 0) return text + ", from the start";
  return text + ", resuming from step " + std::to_string(step) + " (" + text_of(json, "resumed_from") + ")";
}

std::string eval_line(const Json& json) {
  std::string text = "eval  step " + text_of(json, "step") + "  loss " + text_of(json, "loss");
  for (const auto& [name, value] : json.items()) {
    if (name == "ts" || name == "mono_s" || name == "attempt" || name == "kind" || name == "step" || name == "loss" ||
        name == "samples" || name == "seconds") {
      continue;
    }
    text += "  " + name + " " + text_of(json, name.c_str());
  }
  return text + "  (" + plural(json.value("samples", int64_t{0}), "sample") + " in " +
         format_elapsed(json.contains("seconds") ? number_from_json(json["seconds"]) : NAN) + ")";
}

std::string checkpoint_line(const Json& json) {
  return "saved step " + text_of(json, "step") + "  " + text_of(json, "path") + "  (" + text_of(json, "why") + ", " +
         format_size(json.value("bytes", int64_t{0})) + " in " +
         format_elapsed(json.contains("seconds") ? number_from_json(json["seconds"]) : NAN) + ")";
}

}  // namespace

Console::Console(ConsoleOptions options) : options_(options) {
  if (options_.clock == nullptr) options_.clock = &real_clock();
}

void Console::record(const std::string& kind, const std::string& line) {
  if (kind == "step") {
    newest_step_ = quick_step(line);
    const MonotonicTime now = options_.clock->now();
    eta_.step(newest_step_, now);
    if (!options_.steps) return;
    const bool last = newest_step_ == eta_.total_steps();
    if (!any_step_line_ || last || now - last_step_line_ >= options_.step_interval) return step(line);
    previous_step_ = newest_step_;
    held_step_ = line;
    return;
  }
  const Json json = parse_foreign_json(line);
  if (!json.is_object()) return;
  const std::string timestamp = json.value("ts", "");
  try {
    if (kind == "start") {
      eta_.start(json);
      previous_step_ = json.value("resumed_step", int64_t{0});
      any_step_line_ = false;
      print(start_line(json), timestamp);
      if (json.contains("changes")) print("changed since the last launch: " + changes_text(json["changes"]), timestamp);
    } else if (kind == "eval") {
      print(eval_line(json), timestamp);
    } else if (kind == "checkpoint") {
      print(checkpoint_line(json), timestamp);
    } else if (kind == "warning") {
      print("warning: " + text_of(json, "text"), timestamp);
    }
  } catch (const Json::exception&) {  // a member of another type than documented: a sink never fails
    print(kind + ": " + line, timestamp);
  }
}

void Console::step(const std::string& line) {
  const Json json = parse_foreign_json(line);
  if (!json.is_object()) return;
  const StepRecord record = step_record_from_json(json);
  const int64_t steps = std::max<int64_t>(1, record.step - previous_step_);
  std::string text = "step " + step_of_total(record.step, eta_.total_steps()) + "  epoch " +
                     fixed("%.2f", record.epoch, 6) + "  loss " + fixed("%.4g", record.loss, 9) + "  lr " +
                     fixed("%.3e", record.lr, 9) + "  grad " + fixed("%.3g", record.grad_norm, 8) + "  " +
                     fixed("%.0f", record.samples_per_s, 7) + " samples/s  wait " + wait_share(record, steps) +
                     (record.mfu ? "  mfu " + fixed("%.1f", 100 * *record.mfu, 4) + "%" : "") + "  eta " +
                     format_elapsed(eta_.seconds_left());
  print(text, json.contains("ts") && json["ts"].is_string() ? json["ts"].get<std::string>() : "");
  previous_step_ = record.step;
  last_step_line_ = options_.clock->now();
  any_step_line_ = true;
  held_step_.clear();
}

void Console::notice(const std::string& text) {
  print(text, utc_timestamp(options_.clock->unix_micros()));
}

void Console::close() {
  if (!held_step_.empty()) {
    previous_step_ = -1;
    step(std::string(held_step_));
  }
}

void Console::print(const std::string& text, const std::string& timestamp) {
  std::string out;
  for (const auto& line : split(text, '\n')) {
    // Whole seconds: "2026-11-30T04:05:06Z".
    if (!options_.terminal) out += printable(timestamp.substr(0, 19)) + (timestamp.size() > 19 ? "Z  " : "  ");
    out += printable(line) + "\n";
  }
  write_quietly(options_.fd, out);
}

}  // namespace gputrain

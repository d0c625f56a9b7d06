#include "monitor/progress_bar.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include <sys/ioctl.h>

#include "monitor/record.h"
#include "monitor/text_out.h"
#include "util/foreign_json.h"
#include "util/text.h"
#include "util/units.h"

namespace gputrain {
namespace {

constexpr int kWidestBar = 30, kNarrowestBar = 5;
constexpr int kBarFrame = 3;  // brackets and a space
constexpr std::string_view kClearLine = "\r\x1b[2K";

int terminal_columns(int fd) {
  winsize size{};
  return ::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

std::string bar(int64_t step, int64_t total, size_t width) {
  const double share = std::clamp(static_cast<double>(step) / static_cast<double>(total), 0.0, 1.0);
  const auto full = static_cast<size_t>(share * static_cast<double>(width));
  return "[" + std::string(full, '#') + std::string(width - full, '.') + "] ";
}

}  // namespace

ProgressBar::ProgressBar(ProgressBarOptions options) : options_(options) {
  if (options_.clock == nullptr) options_.clock = &real_clock();
}

void ProgressBar::record(const std::string& kind, const std::string& line) {
  if (kind == "step") {
    newest_ = line;
    changed_ = true;
    return;
  }
  clear();
  if (kind != "start") return;
  const Json json = parse_foreign_json(line);
  shown_ = Json();
  newest_.clear();
  if (json.is_object() && (!json.contains("total_steps") || json["total_steps"].is_number_integer())) eta_.start(json);
}

void ProgressBar::notice(const std::string&) {
  clear();
}

void ProgressBar::tick() {
  if (!newest_.empty()) {
    shown_ = parse_foreign_json(newest_);
    newest_.clear();
    if (shown_.is_object()) eta_.step(step_record_from_json(shown_).step, options_.clock->now());
  }
  if (!shown_.is_object() || (drawn_ && !changed_)) return;
  write_quietly(options_.fd, std::string(kClearLine) +
                                 render(options_.columns > 0 ? options_.columns : terminal_columns(options_.fd)));
  drawn_ = true;
  changed_ = false;
}

void ProgressBar::close() {
  if (drawn_) write_quietly(options_.fd, "\n");  // the last state stays on the screen
  drawn_ = false;
  shown_ = Json();
  newest_.clear();
}

void ProgressBar::clear() {
  if (drawn_) write_quietly(options_.fd, kClearLine);
  drawn_ = false;
}

std::string ProgressBar::render(int columns) const {
  const StepRecord record = step_record_from_json(shown_);
  const int64_t total = eta_.total_steps();
  std::string text = std::to_string(record.step) + (total > 0 ? "/" + std::to_string(total) : "");
  char numbers[160];
  std::snprintf(numbers, sizeof numbers, "  loss %.4g  lr %.3g  %.0f samples/s", record.loss, record.lr,
                record.samples_per_s);
  text += numbers;
  if (total > 0) text += "  eta " + format_elapsed(eta_.seconds_left());
  const int room = columns - 1 - static_cast<int>(text.size()) - kBarFrame;
  if (total > 0 && room >= kNarrowestBar)
    text = bar(record.step, total, static_cast<size_t>(std::min(room, kWidestBar))) + text;
  // One column less than the terminal has: a full last column would scroll.
  return text.substr(0, static_cast<size_t>(std::max(0, columns - 1)));
}

}  // namespace gputrain

#pragma once
// One line for each thing that happens, for people and for CI logs.
#include <chrono>
#include <string>

#include "monitor/eta.h"
#include "monitor/sink.h"
#include "sys/clock.h"

namespace gputrain {

struct ConsoleOptions {
  int fd = 2;
  bool terminal = false;  // false: each line starts with its UTC time
  bool steps = true;      // false: no step lines (a progress bar shows them)
  std::chrono::milliseconds step_interval{
      1000};               // at most one step line in that time; the first and the last are always shown
  Clock* clock = nullptr;  // nullptr: real_clock()
};

// A Sink: aligned step lines, evaluations, checkpoints, warnings, notices; foreign bytes made printable. Never blocks
// for longer than one write and never fails: what a full pipe or a closed terminal does not take is dropped.
class Console : public Sink {
 public:
  explicit Console(ConsoleOptions options = {});
  void record(const std::string& kind, const std::string& line) override;
  void notice(const std::string& text) override;
  void close() override;

 private:
  void print(const std::string& text, const std::string& timestamp);
  void step(const std::string& line);

  ConsoleOptions options_;
  Eta eta_;
  std::string held_step_;  // the newest step record that was not shown
  MonotonicTime last_step_line_{};
  bool any_step_line_ = false;
  int64_t previous_step_ = -1;  // of the record before the one being shown
  int64_t newest_step_ = -1;
};

}  // namespace gputrain

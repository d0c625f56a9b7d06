#pragma once
// One redrawn line at the bottom of a terminal: bar, step of total, loss, learning rate, samples/s, time left.
#include <string>

#include "monitor/eta.h"
#include "monitor/sink.h"
#include "sys/clock.h"

namespace gputrain {

struct ProgressBarOptions {
  int fd = 2;
  int columns = 0;         // 0: asked of the terminal at each redraw
  Clock* clock = nullptr;  // nullptr: real_clock()
};

// A Sink for terminals. Put it before a Console{terminal, steps = false} on the same fd: it clears its line when
// anything else is about to be printed (a notice, an evaluation, ...) and redraws at the next tick.
class ProgressBar : public Sink {
 public:
  explicit ProgressBar(ProgressBarOptions options = {});
  void record(const std::string& kind, const std::string& line) override;
  void notice(const std::string& text) override;
  void tick() override;
  void close() override;

 private:
  void clear();
  std::string render(int columns) const;

  ProgressBarOptions options_;
  Eta eta_;
  std::string newest_;  // text of the newest step record, parsed at the next tick
  Json shown_;          // that record, parsed
  bool drawn_ = false;  // the terminal's last line is ours
  bool changed_ = false;
};

}  // namespace gputrain

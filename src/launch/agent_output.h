#pragma once
// What one rank prints: held in memory until the attempt goes, then in its log file; the last lines are always at hand.
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

#include "sys/fd.h"

namespace gputrain {

// Takes any bytes. Never throws and never stops a run: what the disk does not take is dropped, counted and told in the
// file and tail.
class RankOutput {
 public:
  void append(std::string_view bytes);
  // From now on into this file (made with its directories, appended to). What was held goes first.
  void open(const std::string& path);
  const std::string& path() const { return path_; }  // "" before open()
  // The last 40 lines, each cut at 400 bytes, without control characters; then a notice about dropped output, if any.
  std::string tail() const;

 private:
  void hold(std::string_view bytes);
  void write_out(std::string_view bytes);
  size_t write(std::string_view bytes);
  void follow_lines(std::string_view bytes);
  void end_line();

  std::string path_;
  UniqueFd file_;
  std::string head_, recent_;  // held: the first and the last bytes
  int64_t held_dropped_ = 0;   // between the two
  int64_t dropped_ = 0, dropped_since_notice_ = 0;
  std::string problem_;  // why the last write failed
  std::deque<std::string> lines_;
  std::string line_;
  bool carriage_return_ = false;
};

}  // namespace gputrain

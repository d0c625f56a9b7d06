#pragma once
// state.json: the caller's state plus one item of ours, "metric": the keep_best value that this state had, so that
// retention can be derived from the directories alone.
#include <optional>
#include <string>

#include "util/json.h"

namespace gputrain {

// A value of the keep_best metric, and how to compare it.
struct CheckpointMetric {
  std::string name;
  double value = 0;
  bool larger_is_better = true;
  Json measured_on = nullptr;  // the validation data's fingerprint: values of other data are not compared
};
bool comparable(const CheckpointMetric& a, const CheckpointMetric& b);

struct StateFile {
  Json state;
  std::optional<CheckpointMetric> metric;
};

// Throws kInternal when the state is not an object, has a "metric" of its own, or holds a number that JSON would lose
// (NaN).
std::string state_text(const StateFile& file);
StateFile parse_state(const std::string& text, const std::string& where);  // throws kCheckpoint

}  // namespace gputrain

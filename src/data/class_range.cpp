#include "data/class_range.h"

#include <algorithm>

namespace gputrain {

std::optional<size_t> ClassRange::first_outside(std::span<const int64_t> values) const {
  if (!classes) return std::nullopt;
  bool all = true;  // without an early end, so that the usual case is vector code
  for (const int64_t value : values) all &= has(value);
  if (all) return std::nullopt;
  const auto found = std::find_if(values.begin(), values.end(), [this](int64_t value) { return !has(value); });
  return static_cast<size_t>(found - values.begin());
}

std::string ClassRange::problem(const std::string& noun, int64_t value, const std::string& place) const {
  return "has " + noun + " " + std::to_string(value) + " at " + place + ", which is not in [0, " +
         std::to_string(classes.value_or(0)) + ")" +
         (ignore_index ? " nor the ignore_index " + std::to_string(*ignore_index) : "");
}

}  // namespace gputrain

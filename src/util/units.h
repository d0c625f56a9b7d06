#pragma once
// Durations, byte sizes and training lengths as people write them, and back.
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace gputrain {

using Milliseconds = std::chrono::milliseconds;

// "30s", "1.5h", "250ms", "10m", "2d". nullopt when it is not one (a bare number is not: the unit is required) or above
// 100 years.
std::optional<Milliseconds> parse_duration(std::string_view text);
// "250ms", "1.5s", "10m", "2h": the shortest exact form, parse_duration's inverse.
std::string format_duration(Milliseconds duration);
// "1h 02m", "3m 05s", "7.2s": rounded, for people (ETA, elapsed).
std::string format_elapsed(double seconds);

// "64 MiB", "1GiB", "512 B", "10KiB". Binary units only. nullopt when it is not one.
std::optional<int64_t> parse_size(std::string_view text);
std::string format_size(int64_t bytes);  // "1.5 GiB"

// A stretch of training: "500 steps", "1 epoch", "5%" of the whole. Values are positive (zero where the caller allows
// it).
struct Length {
  enum class Unit { kSteps, kEpochs, kPercent };
  int64_t count = 0;  // kPercent: hundredths of a percent, at most 10000
  Unit unit = Unit::kSteps;
  bool operator==(const Length&) const = default;
};
std::optional<Length> parse_length(std::string_view text);  // nullopt also above 10^9
std::string format_length(const Length& length);
// In optimizer-step terms, with `steps_per_epoch` global batches an epoch and `total` steps in all; a part of the whole
// is rounded up. `total` is needed for parts alone.
int64_t length_in_steps(const Length& length, int64_t steps_per_epoch, int64_t total = 0);

// Decimal integer with an optional sign and nothing else: "0010", "1_000", "1e6", "0x10", " 1" are not ("1e6" is
// refused rather than guessed, C06 of the field cases). nullopt also on overflow.
std::optional<int64_t> parse_int(std::string_view text);
// YAML 1.2 core floats: "1e-4", "1.e-4", ".5", "+1", ".inf", not "nan", hex, or text. nullopt when it is not one, when
// it overflows, or when a non-zero literal underflows to zero.
std::optional<double> parse_double(std::string_view text);

}  // namespace gputrain

#include "util/units.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>

#include "util/text.h"

namespace gputrain {
namespace {

// Splits "1.5 GiB" into number text and unit text.
std::pair<std::string_view, std::string_view> split_unit(std::string_view text) {
  size_t end = 0;
  while (end < text.size() && (std::isdigit(static_cast<unsigned char>(text[end])) || text[end] == '.')) ++end;
  std::string_view number = text.substr(0, end);
  while (end < text.size() && text[end] == ' ') ++end;
  return {number, text.substr(end)};
}

template <typename Row, size_t N>
std::optional<double> scaled(std::string_view text, const Row (&rows)[N]) {
  auto [number, unit] = split_unit(text);
  auto value = parse_double(number);
  if (!value) return std::nullopt;
  for (const auto& row : rows) {
    if (row.name == unit) return *value * row.factor;
  }
  return std::nullopt;
}

struct UnitRow {
  std::string_view name;
  double factor;
};
constexpr UnitRow kDurations[] = {{"ms", 1}, {"s", 1e3}, {"m", 6e4}, {"h", 3.6e6}, {"d", 8.64e7}};
constexpr UnitRow kSizes[] = {
    {"B", 1}, {"KiB", 1024.0}, {"MiB", 1048576.0}, {"GiB", 1073741824.0}, {"TiB", 1099511627776.0}};

}  // namespace

// Products of these stay within 64 bits: nanoseconds, epochs times steps of an epoch.
constexpr double kMostMilliseconds = 36500.0 * 86400e3;
constexpr int64_t kMostLength = 1'000'000'000;

std::optional<Milliseconds> parse_duration(std::string_view text) {
  auto value = scaled(text, kDurations);
  if (!value || *value > kMostMilliseconds) return std::nullopt;
  return Milliseconds(std::llround(*value));
}

std::string format_duration(Milliseconds duration) {
  const int64_t ms = duration.count();
  for (size_t i = std::size(kDurations); i-- > 0;) {
    const auto factor = static_cast<int64_t>(kDurations[i].factor);
    if (ms % factor == 0 && (ms != 0 || i == 1)) return std::to_string(ms / factor) + std::string(kDurations[i].name);
  }
  return std::to_string(ms) + "ms";
}

std::string format_elapsed(double seconds) {
  char buffer[64];
  if (!std::isfinite(seconds) || seconds < 0) return "-";
  const auto whole = static_cast<int64_t>(std::llround(seconds));
  if (seconds < 59.95) {
    std::snprintf(buffer, sizeof buffer, "%.1fs", seconds);
  } else if (whole < 3600) {
    std::snprintf(buffer, sizeof buffer, "%ldm %02lds", long(whole / 60), long(whole % 60));
  } else {
    std::snprintf(buffer, sizeof buffer, "%ldh %02ldm", long(whole / 3600), long(whole / 60 % 60));
  }
  return buffer;
}

std::optional<int64_t> parse_size(std::string_view text) {
  auto value = scaled(text, kSizes);
  if (!value || *value > 9e18) return std::nullopt;
  return static_cast<int64_t>(*value);
}

std::string format_size(int64_t bytes) {
  size_t unit = 0;
  while (unit + 1 < std::size(kSizes) && static_cast<double>(bytes) >= kSizes[unit + 1].factor) ++unit;
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, unit == 0 ? "%.0f %s" : "%.1f %s",
                static_cast<double>(bytes) / kSizes[unit].factor, std::string(kSizes[unit].name).c_str());
  return buffer;
}

namespace {

// "5%", "2.5 %": a number of hundredths of a percent.
std::optional<Length> parse_percent(std::string_view text) {
  while (text.ends_with(' ')) text.remove_suffix(1);
  const auto percent = parse_double(text);
  if (!percent || *percent < 0 || *percent > 100) return std::nullopt;
  const double hundredths = std::round(*percent * 100);
  if (std::abs(hundredths - *percent * 100) > 1e-9) return std::nullopt;
  return Length{static_cast<int64_t>(hundredths), Length::Unit::kPercent};
}

}  // namespace

std::optional<Length> parse_length(std::string_view text) {
  if (text.ends_with('%')) return parse_percent(text.substr(0, text.size() - 1));
  const size_t space = text.find(' ');
  const size_t word = text.find_first_not_of(' ', std::min(space, text.size()));
  if (word == std::string_view::npos) return std::nullopt;
  const auto count = parse_int(text.substr(0, space));
  const std::string_view unit = text.substr(word);
  if (!count || *count < 0 || *count > kMostLength) return std::nullopt;
  if (unit == "step" || unit == "steps") return Length{*count, Length::Unit::kSteps};
  if (unit == "epoch" || unit == "epochs") return Length{*count, Length::Unit::kEpochs};
  return std::nullopt;
}

std::string format_length(const Length& length) {
  if (length.unit == Length::Unit::kPercent) return format_number(static_cast<double>(length.count) / 100) + "%";
  const char* unit = length.unit == Length::Unit::kSteps ? " step" : " epoch";
  return std::to_string(length.count) + unit + (length.count == 1 ? "" : "s");
}

int64_t length_in_steps(const Length& length, int64_t steps_per_epoch, int64_t total) {
  if (length.unit == Length::Unit::kPercent) {
    // In two parts, so that no product overflows.
    return total / 10000 * length.count + (total % 10000 * length.count + 9999) / 10000;
  }
  return length.unit == Length::Unit::kSteps ? length.count : length.count * steps_per_epoch;
}

std::optional<int64_t> parse_int(std::string_view text) {
  std::string_view digits = text;
  if (!digits.empty() && (digits[0] == '-' || digits[0] == '+')) digits.remove_prefix(1);
  if (digits.empty() || digits[0] < '0' || digits[0] > '9' || (digits.size() > 1 && digits[0] == '0'))
    return std::nullopt;
  if (!text.empty() && text[0] == '+') text.remove_prefix(1);
  int64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<double> parse_double(std::string_view text) {
  std::string_view body = text;
  double sign = 1;
  if (!body.empty() && (body[0] == '-' || body[0] == '+')) {
    sign = body[0] == '-' ? -1 : 1;
    body.remove_prefix(1);
  }
  if (body == ".inf" || body == ".Inf" || body == ".INF") return sign * std::numeric_limits<double>::infinity();
  if (body.empty() || !(std::isdigit(static_cast<unsigned char>(body[0])) || body[0] == '.')) return std::nullopt;
  std::string padded =
      body[0] == '.' ? "0" + std::string(body) : std::string(body);  // from_chars wants a leading digit
  double value = 0;
  auto [end, error] = std::from_chars(padded.data(), padded.data() + padded.size(), value);
  if (error != std::errc() || end != padded.data() + padded.size()) return std::nullopt;
  if (value == 0 && padded.substr(0, padded.find_first_of("eE")).find_first_of("123456789") != std::string::npos)
    return std::nullopt;
  if (body == ".") return std::nullopt;
  return sign * value;
}

}  // namespace gputrain

#pragma once
#include <algorithm>
#include <climits>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>

#include "util/units.h"

namespace gputrain {

// "attempt-0001", a directory of OUTPUT/logs.
inline std::string attempt_name(int attempt) {
  char name[24];
  std::snprintf(name, sizeof name, "attempt-%04d", attempt);
  return name;
}

// The attempt of such a name; nullopt for another name.
inline std::optional<int> attempt_number(std::string_view name) {
  constexpr std::string_view kPrefix = "attempt-";
  if (!name.starts_with(kPrefix)) return std::nullopt;
  const std::string_view digits = name.substr(kPrefix.size());
  const auto number = parse_int(digits.substr(std::min(digits.find_first_not_of('0'), digits.size())));
  if (!number || *number < 1 || *number > INT_MAX || attempt_name(static_cast<int>(*number)) != name)
    return std::nullopt;
  return static_cast<int>(*number);
}

// OUTPUT/logs/attempt-0001/rank-00000.log: what one rank printed.
inline std::string rank_log_path(const std::string& output, const std::string& attempt, int rank) {
  char name[24];
  std::snprintf(name, sizeof name, "/rank-%05d.log", rank);
  return output + "/logs/" + attempt + name;
}

}  // namespace gputrain

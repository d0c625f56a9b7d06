#pragma once
#include <cstdio>
#include <string>

namespace gputrain {

// "attempt-0001", a directory of OUTPUT/logs.
inline std::string attempt_name(int attempt) {
  char name[24];
  std::snprintf(name, sizeof name, "attempt-%04d", attempt);
  return name;
}

// OUTPUT/logs/attempt-0001/rank-00000.log: what one rank printed.
inline std::string rank_log_path(const std::string& output, const std::string& attempt, int rank) {
  char name[24];
  std::snprintf(name, sizeof name, "/rank-%05d.log", rank);
  return output + "/logs/" + attempt + name;
}

}  // namespace gputrain

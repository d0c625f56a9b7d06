#include "util/json.h"

#include <limits>
#include <set>
#include <vector>

#include "util/error.h"
#include "util/foreign_json.h"

namespace gputrain {

Json json_number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

double number_from_json(const Json& value) {
  if (value.is_number()) return value.get<double>();
  if (value == "inf") return std::numeric_limits<double>::infinity();
  if (value == "-inf") return -std::numeric_limits<double>::infinity();
  return std::numeric_limits<double>::quiet_NaN();
}

Json parse_json(std::string_view text, const std::string& where) {
  if (nested_deeper_than(kMaxJsonNesting, text)) {
    throw Error(ErrorKind::kInternal, "JSON nested deeper than " + std::to_string(kMaxJsonNesting), where);
  }
  std::vector<std::set<std::string>> open_objects;
  auto refuse_duplicates = [&](int, Json::parse_event_t event, Json& parsed) {
    using Event = Json::parse_event_t;
    if (event == Event::object_start) open_objects.emplace_back();
    if (event == Event::object_end) open_objects.pop_back();
    if (event == Event::key && !open_objects.back().insert(parsed.get<std::string>()).second) {
      throw Error(ErrorKind::kInternal, "JSON key \"" + parsed.get<std::string>() + "\" appears twice", where);
    }
    return true;
  };
  try {
    return Json::parse(text, refuse_duplicates);
  } catch (const nlohmann::json::exception& problem) {
    throw Error(ErrorKind::kInternal, std::string("not valid JSON: ") + problem.what(), where);
  }
}

std::string dump_line(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace gputrain

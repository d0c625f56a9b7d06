// Spec -> YAML text that reads back to the same settings.
#include <algorithm>

#include "spec/fields.h"
#include "spec/spec.h"
#include "spec/yaml_text.h"
#include "util/text.h"
#include "util/units.h"

namespace gputrain {
namespace {

bool is_plain(const std::string& text) {
  static constexpr std::string_view kSafe = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-+ ";
  static constexpr std::string_view kNulls[] = {"null", "Null", "NULL", "~"};
  const bool safe =
      !text.empty() && text.find_first_not_of(kSafe) == std::string::npos && text.front() != ' ' && text.back() != ' ';
  // Where no type is expected (a plug-in's arguments) text that looks like something else is kept apart by quotes.
  const bool other = parse_double(text) || text == "true" || text == "false";
  return safe && !other && text.front() != '-' && std::ranges::find(kNulls, text) == std::end(kNulls);
}

std::string list_text(const Json& list) {
  std::vector<std::string> parts;
  for (const auto& item : list) parts.push_back(yaml_flow(item));
  return "[" + join(parts, ", ") + "]";
}

std::string map_text(const Json& map) {
  std::vector<std::string> parts;
  for (const auto& [key, value] : map.items()) parts.push_back(yaml_flow(key) + ": " + yaml_flow(value));
  return "{" + join(parts, ", ") + "}";
}

// Transforms are kept as {"name": ..., "args": {...}} and written as NAME or {NAME: {...}}.
Json written_form(const Json& transforms) {
  Json list = Json::array();
  for (const auto& transform : transforms) {
    if (transform["args"].empty()) {
      list.push_back(transform["name"]);
    } else {
      list.push_back({{transform["name"].get<std::string>(), transform["args"]}});
    }
  }
  return list;
}

}  // namespace

std::string yaml_flow(const Json& value) {
  if (value.is_object()) return map_text(value);
  if (value.is_array()) return list_text(value);
  if (value.is_null()) return "none";
  if (!value.is_string()) return value.dump();
  const auto text = value.get<std::string>();
  // JSON's strings are YAML's double-quoted ones; text that reads as a boolean or number is safe unquoted, types come
  // from the key.
  return is_plain(text) ? text : value.dump();
}

std::string yaml_value(const Setting& setting) {
  const Field* field = find_field(setting.key);
  return yaml_flow(field != nullptr && field->type == FieldType::kTransforms ? written_form(setting.value)
                                                                             : setting.value);
}

std::string to_yaml(const Spec& spec) {
  std::string text;
  std::vector<std::string> open;  // sections that the last line stands in
  for (const auto& setting : spec.settings()) {
    std::vector<std::string> words = split(setting.key, '.');
    const std::string last = words.back();
    words.pop_back();
    const auto differ = std::ranges::mismatch(open, words);
    const auto same = static_cast<size_t>(differ.in1 - open.begin());
    for (size_t depth = same; depth < words.size(); ++depth) text += std::string(2 * depth, ' ') + words[depth] + ":\n";
    open = words;
    text += std::string(2 * words.size(), ' ') + last + ": " + yaml_value(setting) + "\n";
  }
  return text;
}

}  // namespace gputrain

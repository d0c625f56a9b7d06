#pragma once
// Validates a value against the part of JSON Schema that json_schema() uses; refuses keywords it does not know. Returns
// what is wrong,
// "" when nothing is. And YAML as an editor's parser sees it.
#include <regex>
#include <stdexcept>
#include <string>

#include "spec/node.h"
#include "util/json.h"
#include "util/units.h"

namespace gputrain {

inline Json as_editor_sees(const Node& node) {
  Json value;
  if (node.kind == Node::Kind::kMap) {
    value = Json::object();
    for (const auto& member : node.members) value[member.key] = as_editor_sees(member.value);
  } else if (node.kind == Node::Kind::kList) {
    value = Json::array();
    for (const auto& item : node.items) value.push_back(as_editor_sees(item));
  } else if (node.kind == Node::Kind::kScalar) {
    value = node.text;
    if (node.quoted) return value;
    if (auto integer = parse_int(node.text))
      value = *integer;
    else if (auto number = parse_double(node.text))
      value = *number;
    else if (node.text == "true" || node.text == "false")
      value = node.text == "true";
  }
  return value;
}

inline bool has_type(const Json& value, const std::string& type) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "boolean") return value.is_boolean();
  if (type == "integer") return value.is_number_integer();
  if (type == "number") return value.is_number();
  throw std::logic_error("unknown type " + type);
}

inline std::string schema_fault(const Json& value, const Json& schema, const std::string& at = "$");

inline std::string object_fault(const Json& value, const Json& schema, const std::string& at) {
  for (const auto& [key, item] : value.items()) {
    Json below;
    if (schema.contains("properties") && schema["properties"].contains(key)) below = schema["properties"][key];
    if (schema.contains("patternProperties")) {
      for (const auto& [pattern, sub] : schema["patternProperties"].items()) {
        if (std::regex_search(key, std::regex(pattern))) below = sub;
      }
    }
    if (below.is_null()) {
      if (schema.value("additionalProperties", true) == false) return at + "." + key + ": unknown";
      continue;
    }
    if (auto fault = schema_fault(item, below, at + "." + key); !fault.empty()) return fault;
  }
  return "";
}

inline std::string keyword_fault(const Json& value, const Json& schema, const std::string& word, const Json& rule,
                                 const std::string& at) {
  const std::string fault = at + ": " + word;
  if (word == "$schema" || word == "title" || word == "description" || word == "default") return "";
  if (word == "properties" || word == "patternProperties" || word == "additionalProperties") return "";
  if (word == "type") {
    if (!rule.is_array()) return has_type(value, rule) ? "" : fault;
    for (const auto& type : rule) {
      if (has_type(value, type)) return "";
    }
    return fault;
  }
  if (word == "required") {
    for (const auto& key : rule) {
      if (value.is_object() && !value.contains(key.get<std::string>())) return at + ": lacks " + key.get<std::string>();
    }
    return "";
  }
  if (word == "anyOf") {
    std::string all;
    for (const auto& choice : rule) {
      const auto one = schema_fault(value, choice, at);
      if (one.empty()) return "";
      all += one + " | ";
    }
    return all;
  }
  if (word == "enum") return std::find(rule.begin(), rule.end(), value) != rule.end() ? "" : fault;
  if (word == "const") return value == rule ? "" : fault;
  if (word == "pattern")
    return !value.is_string() || std::regex_search(value.get<std::string>(), std::regex(rule.get<std::string>()))
               ? ""
               : fault;
  if (word == "minLength")
    return !value.is_string() || value.get<std::string>().size() >= rule.get<size_t>() ? "" : fault;
  if (word == "minItems") return !value.is_array() || value.size() >= rule.get<size_t>() ? "" : fault;
  if (word == "maxItems") return !value.is_array() || value.size() <= rule.get<size_t>() ? "" : fault;
  if (word == "minimum") return !value.is_number() || value >= rule ? "" : fault;
  if (word == "maximum") return !value.is_number() || value <= rule ? "" : fault;
  if (word == "exclusiveMinimum") return !value.is_number() || value > rule ? "" : fault;
  if (word == "exclusiveMaximum") return !value.is_number() || value < rule ? "" : fault;
  if (word == "items") {
    for (size_t i = 0; value.is_array() && i < value.size(); ++i) {
      if (auto below = schema_fault(value[i], rule, at + "[" + std::to_string(i) + "]"); !below.empty()) return below;
    }
    return "";
  }
  throw std::logic_error("unknown keyword " + word);
}

inline std::string schema_fault(const Json& value, const Json& schema, const std::string& at) {
  for (const auto& [word, rule] : schema.items()) {
    if (auto fault = keyword_fault(value, schema, word, rule, at); !fault.empty()) return fault;
  }
  return value.is_object() ? object_fault(value, schema, at) : "";
}

}  // namespace gputrain

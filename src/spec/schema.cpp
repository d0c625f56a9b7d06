#include "spec/schema.h"

#include <algorithm>
#include <string>
#include <vector>

#include "spec/describe_field.h"
#include "spec/rules.h"
#include "util/text.h"

namespace gputrain {
namespace {

// Editors and YAML 1.1 parsers hand over "1e-3" as text, and quoted numbers are accepted.
constexpr const char* kNumberPattern = R"(^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$)";
constexpr const char* kIntPattern = "^[-+]?(0|[1-9][0-9]*)$";
constexpr const char* kDurationPattern = R"(^[0-9]+(\.[0-9]+)? *(ms|s|m|h|d)$)";
constexpr const char* kLengthPattern = "^[0-9]+ +(steps?|epochs?)$";
constexpr const char* kLengthOrPartPattern = "^([0-9]+ +(steps?|epochs?)|[0-9]+(\\.[0-9]+)? *%)$";

Json any_of(std::vector<Json> choices) {
  if (choices.size() == 1) return choices[0];
  return {{"anyOf", std::move(choices)}};
}

Json text_like(const char* pattern) {
  return {{"type", "string"}, {"pattern", pattern}};
}

Json number_schema(const ValueRule& rule, bool integer) {
  Json number = {{"type", integer ? "integer" : "number"}};
  if (rule.least) number[rule.above ? "exclusiveMinimum" : "minimum"] = *rule.least;
  if (rule.most) number[rule.below ? "exclusiveMaximum" : "maximum"] = *rule.most;
  if (rule.multiple_of > 1) number["multipleOf"] = rule.multiple_of;
  return any_of({number, text_like(integer ? kIntPattern : kNumberPattern)});
}

Json list_schema(const ValueRule& rule, bool integer) {
  Json list = {{"type", "array"}, {"items", number_schema(rule, integer)}, {"minItems", std::max(1, rule.length)}};
  if (rule.length > 0) list["maxItems"] = rule.length;
  if (rule.may_be_empty) list["minItems"] = 0;
  return list;
}

Json value_schema(const ValueRule& rule) {
  using Kind = ValueRule::Kind;
  std::vector<Json> choices;
  if (!rule.words.empty()) choices.push_back({{"enum", rule.words}});
  switch (rule.kind) {
    case Kind::kText:  // 008 and `on` are words too
      choices.push_back({{"type", Json::array({"string", "number", "boolean"})}, {"minLength", 1}});
      break;
    case Kind::kPath:
      choices.push_back({{"type", "string"}, {"minLength", 1}});
      break;
    case Kind::kInt:
    case Kind::kFloat:
      choices.push_back(number_schema(rule, rule.kind == Kind::kInt));
      break;
    case Kind::kBool:
      choices.push_back({{"type", "boolean"}});
      break;
    case Kind::kDuration:
      choices.push_back(text_like(kDurationPattern));
      break;
    case Kind::kLength:
      choices.push_back(text_like(kLengthOrPartPattern));
      break;
    case Kind::kEvery:
      choices.insert(choices.end(), {Json{{"const", "never"}}, text_like(kLengthPattern), text_like(kDurationPattern)});
      break;
    case Kind::kIntList:
    case Kind::kFloatList:
      choices.push_back(list_schema(rule, rule.kind == Kind::kIntList));
      break;
    case Kind::kTextList:
      choices.push_back({{"type", "array"}, {"items", {{"type", Json::array({"string", "number", "boolean"})}}}});
      break;
    case Kind::kLengthList:
      choices.push_back({{"type", "array"}, {"items", text_like(kLengthOrPartPattern)}, {"minItems", 1}});
      break;
    case Kind::kChoice:
      break;
  }
  return any_of(std::move(choices));
}

Json object_schema(Json properties, const std::vector<std::string>& required) {
  Json object = {{"type", "object"}, {"properties", std::move(properties)}, {"additionalProperties", false}};
  if (!required.empty()) object["required"] = required;
  return object;
}

Json array_schema() {
  ValueRule shape, offset;
  shape.kind = ValueRule::Kind::kIntList;
  shape.least = 1;
  shape.may_be_empty = true;
  offset.kind = ValueRule::Kind::kInt;
  offset.least = 0;
  Json properties = {{"path", {{"type", "string"}}},
                     {"shape", value_schema(shape)},
                     {"dtype", {{"enum", std::vector<std::string>(array_dtypes().begin(), array_dtypes().end())}}},
                     {"offset", value_schema(offset)}};
  return object_schema(std::move(properties), {"path", "shape", "dtype"});
}

Json argument_schema(const CatalogArg& arg) {
  Json schema = arg.type == ArgType::kArray ? array_schema() : value_schema(rule_of(arg));
  schema["description"] = arg.help;
  if (arg.fallback) schema["default"] = *arg.fallback;
  return schema;
}

// Adds the entry's arguments to what else may stand in the map.
Json entry_schema(const CatalogEntry& entry, Json properties, std::vector<std::string> required) {
  for (const auto& arg : entry.args) {
    properties[arg.name] = argument_schema(arg);
    if (!arg.fallback) required.push_back(arg.name);
  }
  Json schema = object_schema(std::move(properties), required);
  schema["description"] = entry.help;
  return schema;
}

// One alternative for each catalog entry: the name is given under `name_key`, or, for `fallback`, left out.
Json by_name(CatalogKind kind, const std::string& name_key, std::string_view fallback, const Json& others) {
  std::vector<Json> choices;
  for (const auto& entry : catalog()) {
    if (entry.kind != kind) continue;
    Json properties = {{name_key, {{"const", entry.name}}}};
    properties.update(others);
    choices.push_back(
        entry_schema(entry, std::move(properties),
                     entry.name == fallback ? std::vector<std::string>() : std::vector<std::string>{name_key}));
  }
  return any_of(std::move(choices));
}

// One alternative for each model of the catalog, one for a TorchScript file, one for a plug-in; `others`: keys that
// each may have.
Json model_schema(const Json& others) {
  std::vector<Json> choices;
  const auto add = [&](Json properties, const std::vector<std::string>& required) {
    properties.update(others);
    choices.push_back(object_schema(std::move(properties), required));
  };
  const Json none = {{"const", "none"}}, path = {{"type", "string"}, {"minLength", 1}};
  for (const auto& entry : catalog()) {
    if (entry.kind != CatalogKind::kModel) continue;
    add({{"name", {{"const", entry.name}}},
         {"args", entry_schema(entry, Json::object(), {})},
         {"torchscript", none},
         {"plugin", none}},
        {"name"});
  }
  add({{"name", none}, {"torchscript", path}, {"plugin", none}}, {"torchscript"});
  add({{"name", none}, {"torchscript", none}, {"plugin", path}, {"args", {{"type", "object"}}}}, {"plugin"});
  return any_of(std::move(choices));
}

Json transforms_schema() {
  std::vector<Json> choices;
  std::vector<std::string> bare;
  for (const auto& entry : catalog()) {
    if (entry.kind != CatalogKind::kTransform) continue;
    if (std::ranges::all_of(entry.args, [](const CatalogArg& arg) { return arg.fallback.has_value(); }))
      bare.push_back(entry.name);
    choices.push_back(object_schema({{entry.name, entry_schema(entry, Json::object(), {})}}, {entry.name}));
  }
  choices.insert(choices.begin(), Json{{"enum", bare}});
  return {{"type", "array"}, {"items", any_of(std::move(choices))}};
}

Json hosts_schema() {
  const Json host = any_of({text_like("^local(:[1-9][0-9]*)?$")});
  return any_of({{{"type", "array"}, {"items", host}, {"minItems", 1}}, {{"type", "string"}}});
}

Json field_schema(const Field& field) {
  Json schema;
  if (field.type == FieldType::kSource) {
    schema = by_name(field.catalog_kind, "format", "", Json::object());
    if (field.optional_section) schema["anyOf"].push_back({{"const", "none"}});
  } else if (field.type == FieldType::kTransforms) {
    schema = transforms_schema();
  } else if (field.type == FieldType::kHosts) {
    schema = hosts_schema();
  } else if (field.type == FieldType::kScales) {
    ValueRule scale;
    scale.kind = ValueRule::Kind::kFloat;
    scale.least = 0;
    scale.above = true;
    schema = {{"type", "object"}, {"additionalProperties", value_schema(scale)}};
  } else {
    schema = value_schema(rule_of(field));
  }
  schema["description"] =
      std::string(field.help) + " (" + expected_text(field) + "; default: " + fallback_text(field) + ")";
  return schema;
}

bool is_required(const Field& field) {
  return !field.fallback;
}

Json section_schema(const std::string& prefix);

// Keys directly below `prefix` ("" or "data."), each once.
std::vector<std::string> words_below(const std::string& prefix) {
  std::vector<std::string> words;
  for (const auto& field : fields()) {
    if (!field.key.starts_with(prefix)) continue;
    std::string word(field.key.substr(prefix.size(), field.key.find('.', prefix.size()) - prefix.size()));
    if (std::ranges::find(words, word) == words.end()) words.push_back(std::move(word));
  }
  return words;
}

bool needs(const std::string& key) {
  if (key == "model") return true;  // one of its ways to name a model
  if (const Field* field = find_field(key)) return is_required(*field);
  const Field* name = find_field(key + ".name");
  if (name != nullptr && name->fallback) {
    const CatalogEntry* entry = find_entry(name->catalog_kind, *name->fallback);
    if (std::ranges::any_of(entry->args, [](const CatalogArg& arg) { return !arg.fallback; })) return true;
  }
  return std::ranges::any_of(
      fields(), [&](const Field& field) { return field.key.starts_with(key + ".") && is_required(field); });
}

Json key_schema(const std::string& key) {
  if (const Field* field = find_field(key)) return field_schema(*field);
  return section_schema(key);
}

Json section_schema(const std::string& section) {
  if (section == "model") {
    Json others = Json::object();
    for (const char* word : {"init", "init_strict", "init_ignore", "freeze"})
      others[word] = key_schema("model." + std::string(word));
    return model_schema(others);
  }
  const Field* name = find_field(section + ".name");
  Json properties = Json::object();
  std::vector<std::string> required;
  for (const auto& word : words_below(section + ".")) {
    if (name != nullptr && word == "name") continue;
    properties[word] = key_schema(section + "." + word);
    if (needs(section + "." + word)) required.push_back(word);
  }
  Json schema = name != nullptr ? by_name(name->catalog_kind, "name", name->fallback.value_or(""), properties)
                                : object_schema(std::move(properties), required);
  schema["description"] = section_help(section);
  return schema;
}

}  // namespace

Json json_schema() {
  Json properties = Json::object();
  std::vector<std::string> required;
  for (const auto& word : words_below("")) {
    properties[word] = key_schema(word);
    if (needs(word)) required.push_back(word);
  }
  Json schema = {{"$schema", "https://json-schema.org/draft/2020-12/schema"}, {"title", "gputrain spec"}};
  schema.update(object_schema(std::move(properties), required));
  schema["patternProperties"] = {{"^x-", Json::object()}};
  return schema;
}

}  // namespace gputrain

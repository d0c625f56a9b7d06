// The parts of SpecBuilder that read what the catalog describes: arguments, data sets, transforms. And hosts.
#include <algorithm>

#include "spec/builder.h"
#include "util/text.h"
#include "util/units.h"

namespace gputrain {
namespace {

std::vector<std::string> argument_names(const CatalogEntry& entry) {
  std::vector<std::string> names;
  names.reserve(entry.args.size());
  for (const auto& arg : entry.args) names.push_back(arg.name);
  return names;
}

std::string unknown_argument(const CatalogEntry& entry) {
  const std::vector<std::string> names = argument_names(entry);
  const std::string whole = std::string(to_string(entry.kind)) + " " + entry.name;
  if (names.empty()) return "unknown argument: " + whole + " takes none";
  return "unknown argument: " + whole + " takes " + join_words(names);
}

std::string expected(const CatalogArg& arg) {
  return arg.type == ArgType::kArray ? "{path: ..., shape: [...], dtype: ...}" : describe(rule_of(arg));
}

const std::vector<CatalogArg>& array_items() {
  static const std::vector<CatalogArg> items = {
      {.name = "path", .type = ArgType::kPath},
      {.name = "shape", .type = ArgType::kIntList, .least = 1},
      {.name = "dtype", .type = ArgType::kString},
      {.name = "offset", .type = ArgType::kInt, .fallback = Json(0), .least = 0},
  };
  return items;
}

ValueRule array_item_rule(const CatalogArg& item) {
  ValueRule rule = rule_of(item);
  if (item.name == "dtype") {
    rule.kind = ValueRule::Kind::kChoice;
    rule.words.assign(array_dtypes().begin(), array_dtypes().end());
  }
  rule.may_be_empty = true;  // shape: class labels have the shape []
  return rule;
}

}  // namespace

std::vector<Setting> SpecBuilder::read_arguments(const CatalogEntry& entry, const Node* map, const Scope& scope) {
  std::vector<Setting> settings;
  for (const auto& arg : entry.args) {
    const std::string key = scope.prefix + arg.name;
    const Member* member = map == nullptr ? nullptr : map->find(arg.name);
    if (member != nullptr) {
      read_argument(arg, member->value, key, &settings);
    } else if (arg.fallback) {
      settings.push_back({key, *arg.fallback, {}});
    } else {
      report(scope.mark, key,
             "missing: " + std::string(to_string(entry.kind)) + " " + entry.name + " needs " + expected(arg));
    }
  }
  if (map == nullptr) return settings;
  std::vector<std::string> known = argument_names(entry);
  known.insert(known.end(), scope.skip.begin(), scope.skip.end());
  for (const auto& member : map->members) {
    if (std::ranges::find(known, member.key) != known.end()) continue;
    const std::string near = nearest(member.key, known);
    report(member.mark, printable(scope.prefix + member.key), unknown_argument(entry),
           near.empty() ? "" : "did you mean " + near + "?");
  }
  return settings;
}

void SpecBuilder::read_argument(const CatalogArg& arg, const Node& node, const std::string& key,
                                std::vector<Setting>* out) {
  if (arg.type == ArgType::kArray) return read_array(node, key, out);
  auto reading = read_value(node, rule_of(arg));
  if (auto* problem = std::get_if<Problem>(&reading)) {
    problem->key = key;
    problems_.push_back(std::move(*problem));
  } else {
    out->push_back({key, std::get<Json>(std::move(reading)), origin_of(node.mark)});
  }
}

void SpecBuilder::read_array(const Node& node, const std::string& key, std::vector<Setting>* out) {
  if (node.kind != Node::Kind::kMap) {
    return report(node.mark, key, "expected {path: ..., shape: [...], dtype: ...}, got " + describe(node));
  }
  Json array = Json::object();
  std::vector<std::string> names;
  for (const auto& item : array_items()) {
    names.push_back(item.name);
    const std::string item_key = key + "." + item.name;
    const Member* member = node.find(item.name);
    if (member == nullptr) {
      if (item.fallback) array[item.name] = *item.fallback;
      if (!item.fallback) report(node.mark, item_key, "missing: expected " + describe(array_item_rule(item)));
      continue;
    }
    auto reading = read_value(member->value, array_item_rule(item));
    if (auto* problem = std::get_if<Problem>(&reading)) {
      problem->key = item_key;
      problems_.push_back(std::move(*problem));
      continue;
    }
    add_place(item_key, member->value.mark);
    array[item.name] = std::get<Json>(std::move(reading));
  }
  for (const auto& member : node.members) {
    if (std::ranges::find(names, member.key) != names.end()) continue;
    const std::string near = nearest(member.key, names);
    report(member.mark, printable(key + "." + member.key), "unknown key: an array has path, shape, dtype and offset",
           near.empty() ? "" : "did you mean " + near + "?");
  }
  out->push_back({key, std::move(array), origin_of(node.mark)});
}

Json SpecBuilder::read_source(const Field& field, const Node& node) {
  const std::string key(field.key);
  const std::vector<std::string> formats = names_of(CatalogKind::kFormat);
  if (field.optional_section && node.kind == Node::Kind::kScalar && node.text == "none") return Json();
  if (node.kind != Node::Kind::kMap) {
    report(node.mark, key, "expected {format: " + join_words(formats, "or") + ", ...}, got " + describe(node));
    return Json();
  }
  ValueRule rule;
  rule.kind = ValueRule::Kind::kChoice;
  rule.words = formats;
  const Member* format = node.find("format");
  if (format == nullptr) {
    report(node.mark, key + ".format", "missing: expected " + describe(rule));
    return Json();
  }
  auto reading = read_value(format->value, rule);
  if (auto* problem = std::get_if<Problem>(&reading)) {
    problem->key = key + ".format";
    problems_.push_back(std::move(*problem));
    return Json();
  }
  Json source = {{"format", std::get<Json>(reading)}};
  const CatalogEntry* entry = find_entry(CatalogKind::kFormat, source["format"].get<std::string>());
  for (auto& setting : read_arguments(*entry, &node, {key + ".", node.mark, {"format"}})) {
    if (setting.origin.kind != OriginKind::kDefault) spec_.places_.emplace_back(setting.key, setting.origin);
    source[setting.key.substr(key.size() + 1)] = std::move(setting.value);
  }
  return source;
}

Json SpecBuilder::read_transforms(const Field& field, const Node& node) {
  Json list = Json::array();
  if (node.kind != Node::Kind::kList) {
    report(node.mark, std::string(field.key), "expected a list of transforms, got " + describe(node),
           "as in [to_tensor]");
    return list;
  }
  for (size_t i = 0; i < node.items.size(); ++i) {
    read_transform(node.items[i], std::string(field.key) + "[" + std::to_string(i) + "]", &list);
  }
  return list;
}

void SpecBuilder::read_transform(const Node& node, const std::string& key, Json* list) {
  const bool bare = node.kind == Node::Kind::kScalar;
  const bool with_arguments = node.kind == Node::Kind::kMap && node.members.size() == 1;
  if (!bare && !with_arguments) {
    return report(node.mark, key, "expected NAME or {NAME: {arguments...}}, got " + describe(node),
                  node.kind == Node::Kind::kMap ? "one transform for each element of the list" : "");
  }
  const std::string name = bare ? node.text : node.members[0].key;
  const Mark mark = bare ? node.mark : node.members[0].mark;
  const CatalogEntry* entry = find_entry(CatalogKind::kTransform, name);
  if (entry == nullptr) {
    const std::vector<std::string> names = names_of(CatalogKind::kTransform);
    const std::string near = nearest(name, names);
    return report(mark, key, "unknown transform \"" + printable(name) + "\": expected one of " + join(names, ", "),
                  near.empty() ? "" : "did you mean " + near + "?");
  }
  const Node* args = bare || node.members[0].value.kind == Node::Kind::kNull ? nullptr : &node.members[0].value;
  if (args != nullptr && args->kind != Node::Kind::kMap) {
    return report(args->mark, key + "." + name, "expected a map of arguments, got " + describe(*args));
  }
  add_place(key, mark);
  Json values = Json::object();
  const std::string prefix = key + "." + name + ".";
  for (auto& setting : read_arguments(*entry, args, {prefix, mark, {}})) {
    if (setting.origin.kind != OriginKind::kDefault) spec_.places_.emplace_back(setting.key, setting.origin);
    values[setting.key.substr(prefix.size())] = std::move(setting.value);
  }
  list->push_back({{"name", name}, {"args", std::move(values)}});
}

// Patterns of names are free, their values are not.
Json SpecBuilder::read_scales(const Node& node, const std::string& key) {
  Json scales = Json::object();
  if (node.kind != Node::Kind::kMap) {
    report(node.mark, key, "expected {PATTERN: number, ...}, got " + describe(node), "as in {\"encoder.*\": 0.1}");
    return scales;
  }
  ValueRule rule;
  rule.kind = ValueRule::Kind::kFloat;
  rule.least = 0;
  rule.above = true;  // what is not to be trained is frozen
  for (const auto& member : node.members) {
    auto reading = read_value(member.value, rule);
    if (auto* problem = std::get_if<Problem>(&reading)) {
      problem->key = key + "." + printable(member.key);
      problems_.push_back(std::move(*problem));
    } else {
      scales[member.key] = std::get<Json>(std::move(reading));
    }
  }
  return scales;
}

// What a plug-in takes only the plug-in knows: numbers, booleans, words and lists of them, as they look.
void SpecBuilder::read_free_arguments(const Node& map) {
  const auto scalar = [](const Node& node) -> Json {
    if (node.quoted) return node.text;
    if (const auto integer = parse_int(node.text)) return *integer;
    if (const auto number = parse_double(node.text)) return *number;
    if (node.text == "true" || node.text == "false") return node.text == "true";
    return node.text;
  };
  for (const auto& member : map.members) {
    const std::string key = "model.args." + member.key;
    const Node& value = member.value;
    Json list = Json::array();
    bool plain = value.kind == Node::Kind::kScalar || value.kind == Node::Kind::kList;
    for (const auto& item : value.items) {
      plain = plain && item.kind == Node::Kind::kScalar;
      if (plain) list.push_back(scalar(item));
    }
    if (!plain || member.key.find('.') != std::string::npos) {
      report(value.mark, key, "expected a number, true, false, a word or a list of them, got " + describe(value));
    } else {
      add(key, value.kind == Node::Kind::kScalar ? scalar(value) : list, origin_of(value.mark));
    }
  }
}

// A list, or the text of --hosts: "local,local:2".
Json SpecBuilder::read_hosts(const Node& node, const std::string& key) {
  Json hosts = Json::array();
  auto add_host = [&](const std::string& text, Mark mark, size_t i) {
    if (trim(text).empty()) return report(mark, key, "a host without a name");
    add_place(key + "[" + std::to_string(i) + "]", mark);
    hosts.push_back(std::string(trim(text)));
  };
  if (node.kind == Node::Kind::kScalar) {
    const auto parts = split(node.text, ',');
    for (size_t i = 0; i < parts.size(); ++i) add_host(parts[i], node.mark, i);
    return hosts;
  }
  if (node.kind != Node::Kind::kList || node.items.empty()) {
    report(node.mark, key,
           "expected a list of hosts, got " + (node.kind == Node::Kind::kList ? "an empty one" : describe(node)),
           "as in [local]");
    return hosts;
  }
  for (size_t i = 0; i < node.items.size(); ++i) {
    const Node& item = node.items[i];
    const std::string item_key = key + "[" + std::to_string(i) + "]";
    if (item.kind == Node::Kind::kScalar) {
      add_host(item.text, item.mark, i);
    } else if (item.kind == Node::Kind::kMap && item.members.size() == 1 && item.members[0].key == "file" &&
               item.members[0].value.kind == Node::Kind::kScalar) {
      add_place(item_key, item.mark);
      hosts.push_back({{"file", item.members[0].value.text}});
    } else {
      report(item.mark, item_key, "expected local, local:N, user@host:N or {file: PATH}, got " + describe(item));
    }
  }
  return hosts;
}

}  // namespace gputrain

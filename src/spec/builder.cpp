#include "spec/builder.h"

#include <algorithm>
#include <tuple>

#include "util/text.h"

namespace gputrain {
namespace {

// Sections with a catalog name whose arguments stand beside it.
bool holds_arguments(std::string_view prefix) {
  return prefix == "optimizer." || prefix == "schedule.";
}

bool is_section(const std::string& key) {
  return std::ranges::any_of(fields(), [&](const Field& field) { return field.key.starts_with(key + "."); });
}

std::string substitute(std::string_view fallback, const Spec& spec) {
  constexpr std::string_view kName = "<name>";
  std::string text(fallback);
  const Setting* name = spec.find("name");
  if (const size_t at = text.find(kName); at != std::string::npos && name != nullptr) {
    text.replace(at, kName.size(), name->value.get<std::string>());
  }
  return text;
}

}  // namespace

SpecBuilder::SpecBuilder(const SpecInput& input) {
  spec_.file_ = input.file;
  sources_.push_back({OriginKind::kFile, input.file, 0, 0});
  ParsedText parsed = parse_text(input.text);
  spec_.lines_ = std::move(parsed.lines);
  root_ = std::move(parsed.root);
  problems_ = std::move(parsed.problems);
  if (root_.kind == Node::Kind::kMap) apply_overrides(input.overrides, &root_, &sources_, &problems_);
}

Spec SpecBuilder::build() {
  if (root_.kind == Node::Kind::kMap) {
    check_keys(root_, "");
    for (const auto& field : fields()) read_field(field);
    for (auto& problem : check_spec(spec_)) problems_.push_back(std::move(problem));
  }
  if (problems_.empty()) return std::move(spec_);

  auto order = [this](const Problem& problem) {
    const Origin origin =
        problem.mark.source == 0 && problem.mark.line == 0 ? spec_.origin_of(problem.key) : origin_of(problem.mark);
    return std::tuple(origin.kind != OriginKind::kFile, origin.line, origin.column);
  };
  std::ranges::stable_sort(problems_, {}, order);
  std::vector<Error> errors;
  errors.reserve(problems_.size());
  for (const auto& problem : problems_) errors.push_back(render(problem));
  throw ErrorList(std::move(errors));
}

// --- keys ---

void SpecBuilder::check_keys(const Node& map, const std::string& prefix) {
  for (const auto& member : map.members) {
    const std::string key = prefix + member.key;
    const bool dotted =
        member.key.find('.') != std::string::npos;  // "train.epochs: 3" is no way to write train: {epochs: 3}
    if (!dotted && find_field(key) != nullptr) continue;
    if (!dotted && is_section(key)) {
      add_place(key, member.mark);
      if (member.value.kind == Node::Kind::kMap) {
        check_keys(member.value, key + ".");
      } else {
        report(member.value.mark, key, "expected keys with values, got " + describe(member.value));
      }
    } else if (!(prefix.empty() && member.key.starts_with("x-")) && !holds_arguments(prefix)) {
      report_unknown(member, prefix);
    }
  }
}

void SpecBuilder::report_unknown(const Member& member, const std::string& prefix) {
  const std::string section = prefix.empty() ? "" : prefix.substr(0, prefix.size() - 1);
  std::string hint = suggest_key(prefix, member.key);
  if (hint.empty() && section.empty()) hint = "gputrain explain lists all keys";
  problems_.push_back(
      {member.mark, printable(prefix + member.key), "unknown key", std::move(hint), section.empty() ? "-" : section});
}

// The node of a field's key; nullptr when absent. `enclosing`: where to report that. `blocked`: a section on the way is
// no map, which has been reported.
const Node* SpecBuilder::find_node(std::string_view key, Mark* enclosing, bool* blocked) const {
  const Node* node = &root_;
  *enclosing = {};
  for (const auto& word : split(key, '.')) {
    if (node->kind != Node::Kind::kMap) {
      *blocked = true;
      return nullptr;
    }
    const Member* member = node->find(word);
    if (member == nullptr) return nullptr;
    *enclosing = member->mark;
    node = &member->value;
  }
  return node;
}

// --- fields ---

void SpecBuilder::read_field(const Field& field) {
  Mark enclosing;
  bool blocked = false;
  const Node* node = find_node(field.key, &enclosing, &blocked);
  if (blocked) return;
  if (field.type == FieldType::kArguments) {
    read_model_arguments(field, node, enclosing);
  } else if (node == nullptr) {
    use_default(field, enclosing);
  } else {
    add_place(std::string(field.key), enclosing);
    read_given(field, *node);
  }
  if (field.type == FieldType::kName && holds_arguments(field.key.substr(0, field.key.find('.') + 1)))
    read_name_arguments(field);
}

void SpecBuilder::read_given(const Field& field, const Node& node) {
  const std::string key(field.key);
  const size_t before = problems_.size();
  Json value;
  if (field.type == FieldType::kSource) {
    value = read_source(field, node);
  } else if (field.type == FieldType::kTransforms) {
    value = read_transforms(field, node);
  } else if (field.type == FieldType::kHosts) {
    value = read_hosts(node, key);
  } else if (field.type == FieldType::kScales) {
    value = read_scales(node, key);
  } else {
    auto reading = read_value(node, rule_of(field));
    if (auto* problem = std::get_if<Problem>(&reading)) {
      problem->key = key;
      problems_.push_back(std::move(*problem));
    } else {
      value = std::get<Json>(std::move(reading));
    }
  }
  if (problems_.size() == before) add(key, std::move(value), origin_of(node.mark));
}

void SpecBuilder::use_default(const Field& field, Mark enclosing) {
  const std::string key(field.key);
  if (!field.fallback) {
    const bool single = field.type != FieldType::kSource;
    const std::string expected =
        single ? describe(rule_of(field)) : "{format: " + join_words(names_of(field.catalog_kind), "or") + ", ...}";
    report(enclosing, key, "missing: expected " + expected);
    return;
  }
  const Origin origin;
  if (field.type == FieldType::kSource) return add(key, Json(), origin);
  if (field.type == FieldType::kTransforms || field.type == FieldType::kTextList)
    return add(key, Json::array(), origin);
  if (field.type == FieldType::kScales) return add(key, Json::object(), origin);
  if (field.type == FieldType::kHosts) return add(key, Json::array({"local"}), origin);
  Node node;
  node.kind = Node::Kind::kScalar;
  node.text = substitute(*field.fallback, spec_);
  auto reading = read_value(node, rule_of(field));
  GP_CHECK(std::holds_alternative<Json>(reading), "the default of " + key + " is not valid");
  add(key, std::get<Json>(std::move(reading)), origin);
}

void SpecBuilder::read_name_arguments(const Field& field) {
  const Setting* name = spec_.find(field.key);
  if (name == nullptr) return;
  const CatalogEntry* entry = find_entry(field.catalog_kind, name->value.get<std::string>());
  const std::string section(field.key.substr(0, field.key.find('.')));
  Mark enclosing;
  bool blocked = false;
  const Node* map = find_node(section, &enclosing, &blocked);
  Scope scope = {section + ".", enclosing, {}};
  for (const auto& sibling : fields()) {
    if (sibling.key.starts_with(scope.prefix)) scope.skip.emplace_back(sibling.key.substr(scope.prefix.size()));
  }
  for (auto& setting : read_arguments(*entry, map, scope)) add(setting.key, setting.value, setting.origin);
}

void SpecBuilder::read_model_arguments(const Field& field, const Node* node, Mark enclosing) {
  const Setting* name = spec_.find("model.name");
  if (node != nullptr && node->kind != Node::Kind::kMap) {
    return report(node->mark, std::string(field.key), "expected a map of arguments, got " + describe(*node));
  }
  if (name == nullptr) return;
  if (node != nullptr) add_place(std::string(field.key), enclosing);
  const CatalogEntry* entry = find_entry(field.catalog_kind, name->value.get<std::string>());
  if (entry == nullptr) {
    if (node != nullptr) read_free_arguments(*node);
    return;
  }
  for (auto& setting : read_arguments(*entry, node, {"model.args.", enclosing, {}}))
    add(setting.key, setting.value, setting.origin);
}

// --- bookkeeping ---

void SpecBuilder::add(std::string key, Json value, Origin origin) {
  spec_.settings_.push_back({std::move(key), std::move(value), std::move(origin)});
}

void SpecBuilder::add_place(std::string key, Mark mark) {
  spec_.places_.emplace_back(std::move(key), origin_of(mark));
}

Origin SpecBuilder::origin_of(Mark mark) const {
  Origin origin = sources_[mark.source];
  origin.line = mark.line;
  origin.column = mark.column;
  return origin;
}

void SpecBuilder::report(Mark mark, std::string key, std::string message, std::string hint) {
  problems_.push_back({mark, std::move(key), std::move(message), std::move(hint)});
}

Error SpecBuilder::render(const Problem& problem) const {
  const bool placed = problem.mark.source != 0 || problem.mark.line != 0;
  return render_error(problem, placed ? origin_of(problem.mark) : spec_.origin_of(problem.key), spec_.lines_,
                      ErrorKind::kSpec);
}

}  // namespace gputrain

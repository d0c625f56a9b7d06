#include "spec/explain.h"

#include <algorithm>
#include <vector>

#include "spec/describe_field.h"
#include "spec/rules.h"
#include "spec/yaml_text.h"
#include "util/error.h"
#include "util/text.h"

namespace gputrain {
namespace {

constexpr size_t kWidth = 100;

// Words of `text` in lines of at most kWidth, each after `indent` spaces.
std::string wrapped(std::string_view text, size_t indent) {
  std::string out, line(indent, ' ');
  for (const auto& word : split(text, ' ')) {
    if (line.size() > indent && line.size() + 1 + word.size() > kWidth) {
      out += line + "\n";
      line.assign(indent, ' ');
    }
    line += (line.size() > indent ? " " : "") + word;
  }
  return out + line + "\n";
}

std::string argument_table(const CatalogEntry& entry) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& arg : entry.args) {
    rows.push_back({"  " + arg.name, expected_text(arg), fallback_text(arg)});
    rows.push_back({"      " + arg.help});
  }
  std::string text;
  for (const auto& row : rows) {
    text += row.size() == 1 ? wrapped(trim(row[0]), 6) : row[0] + ": " + row[1] + "; default: " + row[2] + "\n";
  }
  return text;
}

std::string explain_entry(const CatalogEntry& entry) {
  std::string text = std::string(to_string(entry.kind)) + " " + entry.name + "\n" + wrapped(entry.help, 2);
  return text + (entry.args.empty() ? "  no arguments\n" : "arguments\n" + argument_table(entry));
}

std::string entry_list(CatalogKind kind) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& entry : catalog()) {
    if (entry.kind == kind) rows.push_back({"  " + entry.name, entry.help});
  }
  return render_table(rows);
}

bool names_entries(FieldType type) {
  return type == FieldType::kName || type == FieldType::kSource || type == FieldType::kTransforms ||
         type == FieldType::kArguments;
}

std::string explain_field(const Field& field) {
  std::string text = std::string(field.key) + ": " + expected_text(field) + "\n";
  text += "  default: " + fallback_text(field) + "\n";
  text += wrapped(field.help, 2) + "  " + std::string(to_string(field.on_resume)) + "\n";
  if (names_entries(field.type)) {
    text += std::string(to_string(field.catalog_kind)) + "s (gputrain explain NAME shows the arguments)\n" +
            entry_list(field.catalog_kind);
  }
  return text;
}

std::string field_rows(std::string_view prefix) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& field : fields()) {
    if (field.key.starts_with(prefix)) {
      rows.push_back({"  " + std::string(field.key), fallback_text(field), std::string(first_sentence(field.help))});
    }
  }
  return render_table(rows);
}

std::string explain_section(const std::string& section) {
  std::string text =
      section + "\n" + wrapped(section_help(section), 2) + "keys and defaults\n" + field_rows(section + ".");
  const Field* name = find_field(section + ".name");
  if (name != nullptr) text += std::string(to_string(name->catalog_kind)) + "s\n" + entry_list(name->catalog_kind);
  return text;
}

// Where the arguments of a kind stand.
constexpr std::pair<std::string_view, CatalogKind> kArgumentPlaces[] = {
    {"optimizer.", CatalogKind::kOptimizer}, {"schedule.", CatalogKind::kSchedule},
    {"model.args.", CatalogKind::kModel},    {"data.train.", CatalogKind::kFormat},
    {"data.val.", CatalogKind::kFormat},
};

// "optimizer.lr", "model.args.hidden": the argument in each entry that has it; "" when none has.
std::string explain_argument(std::string_view key) {
  std::string text;
  for (const auto& [prefix, kind] : kArgumentPlaces) {
    if (!key.starts_with(prefix)) continue;
    for (const auto& entry : catalog()) {
      if (entry.kind != kind) continue;
      const auto arg = std::ranges::find(entry.args, key.substr(prefix.size()), &CatalogArg::name);
      if (arg == entry.args.end()) continue;
      text += std::string(key) + " of " + entry.name + ": " + expected_text(*arg) +
              "\n  default: " + fallback_text(*arg) + "\n" + wrapped(arg->help, 2);
    }
  }
  return text;
}

std::vector<std::string> explainable_names() {
  std::vector<std::string> names;
  for (const auto& field : fields()) {
    names.emplace_back(field.key);
    const std::string section(field.key.substr(0, field.key.find('.')));
    if (!section_help(section).empty() && std::ranges::find(names, section) == names.end()) names.push_back(section);
  }
  for (const auto& entry : catalog()) names.push_back(entry.name);
  for (const auto& [prefix, kind] : kArgumentPlaces) {
    for (const auto& entry : catalog()) {
      if (entry.kind != kind) continue;
      for (const auto& arg : entry.args) names.push_back(std::string(prefix) + arg.name);
    }
  }
  return names;
}

}  // namespace

std::string explain_all() {
  std::string text, section;
  std::string block = field_rows("");
  for (const auto& line : split(block, '\n')) {
    const std::string_view key = trim(std::string_view(line).substr(0, line.find(' ', 2)));
    const std::string now(key.find('.') == std::string_view::npos ? std::string_view() : key.substr(0, key.find('.')));
    if (now != section && !now.empty()) text += now + ": " + std::string(section_help(now)) + "\n";
    section = now;
    text += line + (line.empty() ? "" : "\n");
  }
  text +=
      "Durations: 250ms, 30s, 10m, 1.5h, 2d. Lengths: 500 steps, 1 epoch; of schedules also 5%. Relative paths are "
      "relative to the working "
      "directory.\n";
  return text + "Keys that start with x- are yours: notes, or anchors to refer to. gputrain explain KEY tells more.\n";
}

std::string explain(std::string_view asked) {
  std::string key(trim(asked));
  std::ranges::replace(key, '-', '_');
  if (const Field* field = find_field(key)) return explain_field(*field);
  if (!section_help(key).empty()) return explain_section(key);
  if (std::string text = explain_argument(key); !text.empty()) return text;
  std::string text;
  for (const auto& entry : catalog()) {
    if (entry.name == key) text += explain_entry(entry);
  }
  if (!text.empty()) return text;
  const std::string near = nearest(key, explainable_names());
  throw Error(ErrorKind::kUsage, "there is no key \"" + printable(asked) + "\" to explain", "",
              near.empty() ? "gputrain explain lists them" : "did you mean " + near + "?");
}

// --- words ---

std::string expected_text(const Field& field) {
  const std::string unit = field.unit.empty() ? "" : " (" + std::string(field.unit) + ")";
  switch (field.type) {
    case FieldType::kArguments:
      return "a map of arguments";
    case FieldType::kSource:
      return "{format: " + join_words(names_of(field.catalog_kind), "or") + ", arguments...}";
    case FieldType::kTransforms:
      return "a list of NAME or {NAME: {arguments...}}";
    case FieldType::kHosts:
      return "a list of local or local:N";
    case FieldType::kScales:
      return "a map from patterns of names to numbers";
    default:
      return describe(rule_of(field)) + unit;
  }
}

std::string expected_text(const CatalogArg& arg) {
  return arg.type == ArgType::kArray ? "{path: ..., shape: [...], dtype: ..., offset: 0}" : describe(rule_of(arg));
}

std::string fallback_text(const Field& field) {
  return field.fallback ? std::string(*field.fallback) : "required";
}

std::string fallback_text(const CatalogArg& arg) {
  return arg.fallback ? yaml_flow(*arg.fallback) : "required";
}

std::string_view first_sentence(std::string_view help) {
  const size_t end = help.find(". ");
  return end == std::string_view::npos ? help : help.substr(0, end + 1);
}

}  // namespace gputrain

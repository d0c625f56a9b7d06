#include "spec/rules.h"

#include <algorithm>
#include <cmath>

#include "util/error.h"
#include "util/text.h"
#include "util/units.h"

namespace gputrain {
namespace {

using Kind = ValueRule::Kind;

Kind kind_of(FieldType type) {
  switch (type) {
    case FieldType::kText:
      return Kind::kText;
    case FieldType::kPath:
      return Kind::kPath;
    case FieldType::kInt:
      return Kind::kInt;
    case FieldType::kFloat:
      return Kind::kFloat;
    case FieldType::kBool:
      return Kind::kBool;
    case FieldType::kDuration:
      return Kind::kDuration;
    case FieldType::kLength:
      return Kind::kLength;
    case FieldType::kEvery:
      return Kind::kEvery;
    case FieldType::kChoice:
    case FieldType::kName:
      return Kind::kChoice;
    case FieldType::kIntList:
      return Kind::kIntList;
    case FieldType::kTextList:
      return Kind::kTextList;
    default:
      GP_CHECK(false, "a field of this type is not a single value");
  }
}

Kind kind_of(ArgType type) {
  switch (type) {
    case ArgType::kInt:
      return Kind::kInt;
    case ArgType::kFloat:
      return Kind::kFloat;
    case ArgType::kBool:
      return Kind::kBool;
    case ArgType::kString:
      return Kind::kText;
    case ArgType::kIntList:
      return Kind::kIntList;
    case ArgType::kFloatList:
      return Kind::kFloatList;
    case ArgType::kPath:
      return Kind::kPath;
    case ArgType::kLength:
      return Kind::kLength;
    case ArgType::kLengthList:
      return Kind::kLengthList;
    case ArgType::kChoice:
      return Kind::kChoice;
    case ArgType::kArray:
      break;
  }
  GP_CHECK(false, "an argument of this type is not a single value");
}

std::string format_bound(const ValueRule& rule, double bound) {
  return rule.kind == Kind::kDuration ? format_duration(Milliseconds(std::llround(bound * 1000)))
                                      : format_number(bound);
}

// " of at least 1", " above 0", " from 0 to 1", " from 0 to below 1".
std::string describe_range(const ValueRule& rule) {
  if (!rule.least && !rule.most) return "";
  // Large limits are guards against slips of the keyboard, not worth a word.
  const bool show_most = rule.most && *rule.most < 100000;
  if (rule.least && show_most) {
    return (rule.above ? " above " : " from ") + format_bound(rule, *rule.least) +
           (rule.below ? " to below " : " to ") + format_bound(rule, *rule.most);
  }
  if (rule.least) return (rule.above ? " above " : " of at least ") + format_bound(rule, *rule.least);
  return show_most ? (rule.below ? " below " : " of at most ") + format_bound(rule, *rule.most) : "";
}

std::string describe_kind(const ValueRule& rule) {
  const std::string count = rule.length > 0 ? std::to_string(rule.length) + " " : "";
  switch (rule.kind) {
    case Kind::kText:
      return "a word";
    case Kind::kPath:
      return "a path";
    case Kind::kInt:
      return (rule.multiple_of > 1 ? "a multiple of " + std::to_string(rule.multiple_of) : "an integer") +
             describe_range(rule);
    case Kind::kFloat:
      return "a number" + describe_range(rule);
    case Kind::kBool:
      return "true or false";
    case Kind::kDuration:
      return "a duration" + describe_range(rule) + ", such as 30s, 10m or 1.5h";
    case Kind::kLength:
      return "a length such as 500 steps, 1 epoch or 5%";
    case Kind::kEvery:
      return "500 steps, 1 epoch, 10m or never";
    case Kind::kIntList:
      return "a list of " + count + "integers" + describe_range(rule);
    case Kind::kFloatList:
      return "a list of " + count + "numbers" + describe_range(rule);
    case Kind::kLengthList:
      return "a list of lengths such as 30 epochs";
    case Kind::kTextList:
      return "a list of words";
    case Kind::kChoice:
      break;
  }
  return "";
}

Problem unexpected(const Node& node, const ValueRule& rule, std::string hint = "") {
  return {node.mark, "", "expected " + describe(rule) + ", got " + describe(node), std::move(hint)};
}

bool in_range(const ValueRule& rule, double value) {
  if (rule.least && (value < *rule.least || (rule.above && value == *rule.least))) return false;
  return !rule.most || (value < *rule.most || (!rule.below && value == *rule.most));
}

std::string int_hint(const std::string& text) {
  const std::string_view digits = std::string_view(text).substr(!text.empty() && (text[0] == '-' || text[0] == '+'));
  const bool only_digits = !digits.empty() && digits.find_first_not_of("0123456789") == std::string_view::npos;
  if (only_digits && digits[0] != '0') return "the number does not fit in 64 bits";
  if (!digits.empty() && digits[0] >= '0' && digits[0] <= '9')
    return "decimal digits only: no leading zero, _, :, exponent or unit";
  return "";
}

using Reading = std::variant<Json, Problem>;

Reading read_int(const Node& node, const ValueRule& rule) {
  const auto value = parse_int(node.text);
  if (!value) return unexpected(node, rule, int_hint(node.text));
  if (!in_range(rule, static_cast<double>(*value))) {
    const bool too_large = rule.most && static_cast<double>(*value) > *rule.most;
    return unexpected(node, rule, too_large ? "at most " + std::to_string(static_cast<int64_t>(*rule.most)) : "");
  }
  if (*value % rule.multiple_of != 0) return unexpected(node, rule);
  return Json(*value);
}

Reading read_float(const Node& node, const ValueRule& rule) {
  const auto value = parse_double(node.text);
  if (!value) {
    const bool digits = !node.text.empty() && node.text.find_first_not_of("0123456789.eE+-") == std::string::npos;
    return unexpected(node, rule, digits ? "as in 0.001 or 1e-3, within the range of 64-bit numbers" : "");
  }
  if (!std::isfinite(*value) || !in_range(rule, *value)) return unexpected(node, rule);
  return Json(*value);
}

Reading read_bool(const Node& node, const ValueRule& rule) {
  static constexpr std::string_view kTrue[] = {"true", "True", "TRUE"}, kFalse[] = {"false", "False", "FALSE"};
  if (node.quoted) return unexpected(node, rule, "without quotes");
  if (std::ranges::find(kTrue, node.text) != std::end(kTrue)) return Json(true);
  if (std::ranges::find(kFalse, node.text) != std::end(kFalse)) return Json(false);
  return unexpected(node, rule);
}

std::string unit_hint(const std::string& text) {
  const bool bare = parse_double(text).has_value();
  return bare ? "a unit is needed: " + text + "s, " + text + "m, " + text + " steps" : "";
}

Reading read_duration(const Node& node, const ValueRule& rule) {
  const auto value = parse_duration(node.text);
  if (!value) return unexpected(node, rule, parse_double(node.text) ? "a unit is needed: " + node.text + "s" : "");
  if (!in_range(rule, static_cast<double>(value->count()) / 1000)) return unexpected(node, rule);
  return Json(node.text);
}

Reading read_length(const Node& node, const ValueRule& rule) {
  const auto length = parse_length(node.text);
  if (length && (length->count > 0 || !rule.above)) return Json(node.text);
  const bool bare = parse_double(node.text).has_value();
  return unexpected(node, rule, bare ? "a unit is needed: " + node.text + " steps or " + node.text + " epochs" : "");
}

Reading read_every(const Node& node, const ValueRule& rule) {
  if (node.text == "never") return Json(node.text);
  const auto length = parse_length(node.text);
  const auto duration = parse_duration(node.text);
  if (length && length->unit == Length::Unit::kPercent) return unexpected(node, rule);
  if (!length && !duration) return unexpected(node, rule, unit_hint(node.text));
  if ((length && length->count == 0) || (duration && duration->count() == 0))
    return unexpected(node, rule, "write never");
  return Json(node.text);
}

Reading read_choice(const Node& node, const ValueRule& rule) {
  const std::string near = nearest(node.text, rule.words);
  const bool precision = std::ranges::find(rule.words, "fp32") != rule.words.end();
  static constexpr std::string_view kOff[] = {"no", "off", "false", "n", "none", "0"};
  std::string folded = node.text;
  std::ranges::transform(folded, folded.begin(), [](unsigned char c) { return std::tolower(c); });
  if (precision && std::ranges::find(kOff, folded) != std::end(kOff))
    return unexpected(node, rule, "write fp32 for no mixed precision");
  return unexpected(node, rule, near.empty() ? "" : "did you mean " + near + "?");
}

Reading read_text(const Node& node, const ValueRule& rule) {
  if (trim(node.text).empty()) return unexpected(node, rule);
  for (const unsigned char c : node.text) {
    if (c < 0x20 || c == 0x7f) return unexpected(node, rule, "without control characters and line ends");
  }
  return Json(node.text);
}

Reading read_list(const Node& node, const ValueRule& rule) {
  if (node.kind != Node::Kind::kList)
    return unexpected(node, rule,
                      node.kind != Node::Kind::kScalar ? ""
                      : rule.kind == Kind::kTextList   ? "as in [fc1.*]"
                                                       : "as in [1, 2]");
  if (rule.length > 0 ? node.items.size() != static_cast<size_t>(rule.length)
                      : node.items.empty() && !rule.may_be_empty) {
    return Problem{node.mark, "",
                   "expected " + describe(rule) + ", got " + plural(static_cast<int64_t>(node.items.size()), "element"),
                   ""};
  }
  ValueRule element = rule;
  element.kind = rule.kind == Kind::kIntList      ? Kind::kInt
                 : rule.kind == Kind::kFloatList  ? Kind::kFloat
                 : rule.kind == Kind::kLengthList ? Kind::kLength
                                                  : Kind::kText;
  element.words.clear();
  Json list = Json::array();
  for (const auto& item : node.items) {
    Reading reading = read_value(item, element);
    if (std::holds_alternative<Problem>(reading)) return reading;
    list.push_back(std::get<Json>(std::move(reading)));
  }
  return list;
}

}  // namespace

ValueRule rule_of(const Field& field) {
  ValueRule rule;
  rule.kind = kind_of(field.type);
  if (field.type == FieldType::kName) rule.words = names_of(field.catalog_kind);
  rule.words.insert(rule.words.end(), field.words.begin(), field.words.end());
  rule.least = field.least;
  rule.most = field.most;
  rule.above = field.above;
  rule.below = field.below;
  rule.length = field.length;
  rule.may_be_empty = field.type == FieldType::kTextList;
  return rule;
}

ValueRule rule_of(const CatalogArg& arg) {
  ValueRule rule;
  rule.kind = kind_of(arg.type);
  rule.least = arg.least;
  rule.most = arg.most;
  rule.above = arg.above;
  rule.below = arg.below;
  rule.length = arg.length;
  rule.words = arg.words;
  rule.multiple_of = arg.multiple_of;
  return rule;
}

std::string describe(const ValueRule& rule) {
  if (rule.kind == Kind::kChoice) return (rule.words.size() > 1 ? "one of " : "") + join(rule.words, ", ");
  return (rule.words.empty() ? "" : join(rule.words, ", ") + " or ") + describe_kind(rule);
}

std::variant<Json, Problem> read_value(const Node& node, const ValueRule& rule) {
  const bool is_word = node.kind == Node::Kind::kScalar && std::ranges::find(rule.words, node.text) != rule.words.end();
  if (!is_word && (rule.kind == Kind::kIntList || rule.kind == Kind::kFloatList || rule.kind == Kind::kLengthList ||
                   rule.kind == Kind::kTextList))
    return read_list(node, rule);
  if (node.kind != Node::Kind::kScalar) return unexpected(node, rule);
  if (is_word) return Json(node.text);
  switch (rule.kind) {
    case Kind::kInt:
      return read_int(node, rule);
    case Kind::kFloat:
      return read_float(node, rule);
    case Kind::kBool:
      return read_bool(node, rule);
    case Kind::kDuration:
      return read_duration(node, rule);
    case Kind::kLength:
      return read_length(node, rule);
    case Kind::kEvery:
      return read_every(node, rule);
    case Kind::kChoice:
      return read_choice(node, rule);
    default:
      return read_text(node, rule);
  }
}

}  // namespace gputrain

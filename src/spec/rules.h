#pragma once
// What a single value may be, and reading it from a node. Internal to spec: fields.h and the catalog are turned into
// rules.
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "spec/catalog/catalog.h"
#include "spec/fields.h"
#include "spec/node.h"
#include "util/json.h"

namespace gputrain {

struct ValueRule {
  enum class Kind {
    kText,
    kPath,
    kInt,
    kFloat,
    kBool,
    kDuration,
    kLength,
    kEvery,
    kChoice,
    kIntList,
    kFloatList,
    kLengthList,
    kTextList
  };
  Kind kind = Kind::kText;
  std::vector<std::string> words;     // accepted besides (kChoice: only these)
  std::optional<double> least, most;  // of numbers, list elements, and durations in seconds
  bool above = false, below = false;  // least, most are exclusive
  int length = 0;                     // of lists; 0 = any but none
  bool may_be_empty = false;          // lists
  int64_t multiple_of = 1;            // of integers
};

ValueRule rule_of(const Field& field);     // not for kArguments, kSource, kTransforms, kScales, kHosts
ValueRule rule_of(const CatalogArg& arg);  // not for kArray

// "an integer of at least 1", "auto or a duration such as 30s, 10m or 1.5h": fits after "expected" and in explain.
std::string describe(const ValueRule& rule);

// The value, typed; or the problem (without key).
std::variant<Json, Problem> read_value(const Node& node, const ValueRule& rule);

}  // namespace gputrain

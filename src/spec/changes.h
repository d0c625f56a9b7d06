#pragma once
// What two launches of one run directory ask differently, by the keys that people write.
#include <string>

#include "util/json.h"

namespace gputrain {

// [{key, from, to}] in the order of `now`, then what it has no more; null where a side lacks the key. Both are texts of
// to_yaml(), as a launch leaves its own in spec.yaml; one that this version cannot read tells nothing.
Json spec_changes(const std::string& before, const std::string& now);

// "train.epochs 5 -> 10, optimizer.lr 0.001 -> 0.002": the values as YAML; "" without changes.
std::string changes_text(const Json& changes);

}  // namespace gputrain

#pragma once
// Whether the task can use a data set, as far as the spec alone tells. Internal to spec.
#include <string>
#include <vector>

#include "spec/node.h"
#include "spec/spec.h"

namespace gputrain {

// `source` is the value of `key`: data.train or data.val. Settings that could not be read are absent from `spec`.
void check_source(const Spec& spec, const std::string& key, const Json& source, std::vector<Problem>* problems);

// "[3, 32, 32]", "[]".
std::string dims_text(const std::vector<int64_t>& dims);

}  // namespace gputrain

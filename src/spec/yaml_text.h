#pragma once
// Values as YAML text. Internal to spec.
#include <string>

#include "spec/spec.h"
#include "util/json.h"

namespace gputrain {

// One line: a scalar, [a, b] or {k: v}. null is written "none".
std::string yaml_flow(const Json& value);

// A setting's value as it would be written after its key.
std::string yaml_value(const Setting& setting);

}  // namespace gputrain

#pragma once
// `gputrain schema`: JSON Schema (draft 2020-12) of the YAML file, for editors.
#include "util/json.h"

namespace gputrain {

Json json_schema();

}  // namespace gputrain

#pragma once
// JSON that somebody else may have written: files of a run directory, requests, what a worker sends.
#include <string_view>

#include "util/json.h"

namespace gputrain {

// Far more than anything of ours has. Copying and printing a value recurse, so depth must have a limit.
inline constexpr int kMaxJsonNesting = 64;

bool nested_deeper_than(int limit, std::string_view json);

// The value, or a discarded one (no object, no array, nothing) when the text is no JSON or nested too deeply.
Json parse_foreign_json(std::string_view text);

}  // namespace gputrain

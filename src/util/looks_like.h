#pragma once
// What a file is that is not what it should be, for errors.
#include <string>
#include <string_view>

namespace gputrain {

// What a file's first bytes (up to 512) look like, as the end of a sentence: "is empty", "is an HTML page (it begins
// with ...)".
std::string looks_like(std::string_view head);

}  // namespace gputrain

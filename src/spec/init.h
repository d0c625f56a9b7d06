#pragma once
// `gputrain init`: a complete, commented example that validates, written from the field table.
#include <string>

namespace gputrain {

std::string example_yaml();

}  // namespace gputrain

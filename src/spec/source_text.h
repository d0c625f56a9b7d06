#pragma once
// What editors and shells do to text files: byte-order marks, line ends, encodings. Internal to spec.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "spec/node.h"

namespace gputrain {

struct SourceText {
  std::string text;                // UTF-8, no byte-order mark, "\n" line ends
  std::vector<std::string> lines;  // of `text`
  std::optional<Problem> problem;  // UTF-16, NUL bytes, invalid UTF-8, a no-break space as indentation
};

SourceText clean_text(std::string_view bytes);

// The last line up to `line` (1-based) that is indented with a tab: yaml-cpp reports such files far away and without
// the word.
std::optional<Mark> find_tab_indent(const std::vector<std::string>& lines, int line);

}  // namespace gputrain

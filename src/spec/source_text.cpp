#include "spec/source_text.h"

#include <algorithm>

#include "util/text.h"

namespace gputrain {
namespace {

bool starts_with_utf16_or_32(std::string_view bytes) {
  if (bytes.starts_with("\xff\xfe") || bytes.starts_with("\xfe\xff")) return true;
  // Without a mark: ASCII characters beside zeros.
  return bytes.size() >= 2 && (bytes[0] == 0) != (bytes[1] == 0);
}

// Lone carriage returns are line ends too (old Macs; YAML 1.2 agrees).
std::string unix_lines(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] != '\r') {
      text += bytes[i];
    } else if (i + 1 == bytes.size() || bytes[i + 1] != '\n') {
      text += '\n';
    }
  }
  return text;
}

// Bytes of the UTF-8 character at `i`; 0 when there is none.
size_t utf8_length(std::string_view text, size_t i) {
  const auto lead = static_cast<unsigned char>(text[i]);
  const size_t length = lead < 0x80 ? 1 : lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 0;
  if (length == 0 || i + length > text.size()) return 0;
  for (size_t k = 1; k < length; ++k) {
    if ((static_cast<unsigned char>(text[i + k]) & 0xc0) != 0x80) return 0;
  }
  return length;
}

std::optional<Problem> find_bad_byte(const std::vector<std::string>& lines) {
  for (size_t n = 0; n < lines.size(); ++n) {
    const std::string& line = lines[n];
    for (size_t i = 0; i < line.size();) {
      const Mark mark = {0, static_cast<int>(n) + 1, static_cast<int>(i) + 1};
      if (line[i] == '\0') return Problem{mark, "", "a NUL byte in the text", "is this a YAML file? Remove the byte"};
      const size_t length = utf8_length(line, i);
      if (length == 0) return Problem{mark, "", "not UTF-8 text", "save the file as UTF-8"};
      i += length;
    }
  }
  return std::nullopt;
}

std::optional<Problem> find_no_break_space(const std::vector<std::string>& lines) {
  constexpr std::string_view kNoBreakSpace = "\xc2\xa0";
  for (size_t n = 0; n < lines.size(); ++n) {
    const size_t indent = std::min(lines[n].find_first_not_of(" \t"), lines[n].size());
    if (std::string_view(lines[n]).substr(indent).starts_with(kNoBreakSpace)) {
      return Problem{{0, static_cast<int>(n) + 1, static_cast<int>(indent) + 1},
                     "",
                     "indented with a no-break space (bytes C2 A0)",
                     "indent with plain spaces"};
    }
  }
  return std::nullopt;
}

}  // namespace

SourceText clean_text(std::string_view bytes) {
  SourceText source;
  if (starts_with_utf16_or_32(bytes)) {
    source.problem = Problem{{}, "", "the text is UTF-16 or UTF-32, not UTF-8", "save the file as UTF-8"};
    return source;
  }
  if (bytes.starts_with("\xef\xbb\xbf")) bytes.remove_prefix(3);
  source.text = unix_lines(bytes);
  source.lines = split(source.text, '\n');
  source.problem = find_bad_byte(source.lines);
  if (!source.problem) source.problem = find_no_break_space(source.lines);
  return source;
}

std::optional<Mark> find_tab_indent(const std::vector<std::string>& lines, int line) {
  for (int n = std::min(line, static_cast<int>(lines.size())); n >= std::max(1, line - 1); --n) {
    const std::string& text = lines[n - 1];
    const size_t first = text.find_first_not_of(" \t");
    const size_t tab = text.find('\t');
    if (first != std::string::npos && tab < first) return Mark{0, n, static_cast<int>(tab) + 1};
  }
  return std::nullopt;
}

}  // namespace gputrain

#pragma once
// Text for people: nearest names, tables, source excerpts with a caret, safe rendering of foreign bytes.
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gputrain {

// Levenshtein distance with adjacent transposition counted as one edit.
int edit_distance(std::string_view a, std::string_view b);

// The candidate nearest to `word` if it is near enough to be a slip (at most a third of the word, at least 1 edit
// allowed;
// '-', '_' and letter case count as equal); "" when none is.
std::string nearest(std::string_view word, std::span<const std::string> candidates);

// "a, b and c"; "" for none.
std::string join_words(std::span<const std::string> words, std::string_view conjunction = "and");

std::string join(std::span<const std::string> parts, std::string_view separator);
std::vector<std::string> split(std::string_view text, char separator);
std::string_view trim(std::string_view text);

// `line_number` (1-based), the source line and a caret under `column` (1-based, in bytes):
//    14 |   lr: -0.1
//       |       ^
std::string source_excerpt(std::string_view line, int line_number, int column);

// Columns padded to equal width, two spaces between; the last column is not padded. Rows may have different lengths.
std::string render_table(const std::vector<std::vector<std::string>>& rows);

// Control characters and invalid UTF-8 as \xNN: foreign bytes never reach a terminal raw.
std::string printable(std::string_view bytes);

// Whether all of `text` fits `pattern`: '*' is any run of characters (dots too, or none), '?' exactly one, all else
// itself.
bool matches_pattern(std::string_view text, std::string_view pattern);

// As one word of a POSIX shell: unchanged where that is safe, else in single quotes.
std::string shell_quoted(std::string_view word);

// "1 rank", "2 ranks".
std::string plural(int64_t count, std::string_view noun);

// Six significant digits, no trailing zeros: 0.0123, 1.5e-05, nan.
std::string format_number(double value);

}  // namespace gputrain

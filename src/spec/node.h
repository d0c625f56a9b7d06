#pragma once
// A parsed YAML text as a tree that remembers where everything stood. Internal to spec; knows nothing of keys and
// types.
#include <string>
#include <string_view>
#include <vector>

namespace gputrain {

struct Mark {
  int source = 0;  // index into the builder's list of sources: 0 = the file
  int line = 0;    // 1-based; 0 = the source as a whole
  int column = 0;  // 1-based, in bytes
};

struct Member;

struct Node {
  enum class Kind { kNull, kScalar, kList, kMap };
  Kind kind = Kind::kNull;
  std::string text;     // of scalars, as written, without quotes
  bool quoted = false;  // "..." or '...'
  Mark mark;
  std::vector<Node> items;      // of lists
  std::vector<Member> members;  // of maps, in order; keys are unique

  const Member* find(std::string_view key) const;
  Member* find(std::string_view key);
};

struct Member {
  std::string key;
  Mark mark;  // of the key
  Node value;
};

// "nothing", "a list", "a map", or the text in quotes (shortened, foreign bytes escaped): the "got X" of an error.
std::string describe(const Node& node);

// Something wrong at a place; an empty mark: where the key is. `key` is the dotted path it is about, or "".
struct Problem {
  Mark mark;
  std::string key;
  std::string message;
  std::string hint;
  std::string explain = {};  // the key to look up; "" = what `key` names, "-" = none
};

struct ParsedText {
  Node root;
  std::vector<std::string> lines;  // of the text, without line ends
  std::vector<Problem> problems;   // any: the tree may be incomplete
};

// Reads one YAML document with a map at the root. Finds: bytes that are no UTF-8 text, tabs as indentation, a second
// document, duplicate keys, merge keys, aliases that contain themselves, tags, keys that are no words.
ParsedText parse_text(std::string_view bytes);

// A value given outside a file: a flow list or map, or quoted text, is read as YAML; anything else is the scalar
// itself.
ParsedText parse_value_text(std::string_view bytes, int source);

}  // namespace gputrain

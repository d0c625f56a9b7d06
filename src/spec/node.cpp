#include "spec/node.h"

#include <utility>

#include "util/text.h"

namespace gputrain {

const Member* Node::find(std::string_view key) const {
  for (const auto& member : members) {
    if (member.key == key) return &member;
  }
  return nullptr;
}

Member* Node::find(std::string_view key) {
  return const_cast<Member*>(std::as_const(*this).find(key));
}

std::string describe(const Node& node) {
  constexpr size_t kLongest = 60;
  switch (node.kind) {
    case Node::Kind::kNull:
      return "nothing";
    case Node::Kind::kList:
      return "a list";
    case Node::Kind::kMap:
      return "a map";
    case Node::Kind::kScalar:
      break;
  }
  if (node.text.size() <= kLongest) return '"' + printable(node.text) + '"';
  return '"' + printable(std::string_view(node.text).substr(0, kLongest)) + "...\" (" +
         std::to_string(node.text.size()) + " bytes)";
}

}  // namespace gputrain

// Values given outside the file, put into its tree.
#include <algorithm>
#include <map>

#include "spec/builder.h"
#include "util/text.h"

namespace gputrain {
namespace {

std::string normalised(std::string_view key) {
  std::string out(trim(key));
  std::ranges::replace(out, '-', '_');
  return out;
}

// Maps on the way are made where they are missing; a scalar in the way is replaced when the file's value would be an
// error anyway.
void put(Node* root, const std::string& key, Node value, Mark mark, std::vector<Problem>* problems) {
  Node* node = root;
  const auto words = split(key, '.');
  for (size_t i = 0; i < words.size(); ++i) {
    if (node->kind == Node::Kind::kList) {
      const std::string list = join(std::span(words).first(i), ".");
      problems->push_back({mark, key, "elements of a list cannot be set one by one", "set " + list + " as a whole"});
      return;
    }
    if (node->kind != Node::Kind::kMap) {
      *node = Node();
      node->kind = Node::Kind::kMap;
      node->mark = mark;
    }
    Member* member = node->find(words[i]);
    if (member == nullptr) {
      node->members.push_back({words[i], mark, Node()});
      member = &node->members.back();
    }
    if (i + 1 == words.size()) {
      member->mark = mark;
      member->value = std::move(value);
      return;
    }
    node = &member->value;
  }
}

}  // namespace

void apply_overrides(const std::vector<Override>& overrides, Node* root, std::vector<Origin>* sources,
                     std::vector<Problem>* problems) {
  std::map<std::string, std::string> given;  // key -> by what; the environment is weaker, so it does not count
  std::vector<std::pair<int, const Override*>> ordered;
  for (const auto& item : overrides) {
    sources->push_back({item.kind, item.name, 0, 0});
    ordered.emplace_back(static_cast<int>(sources->size()) - 1, &item);
  }
  std::ranges::stable_partition(ordered,
                                [](const auto& item) { return item.second->kind == OriginKind::kEnvironment; });
  for (const auto& [source, item] : ordered) {
    const Mark mark = {source, 0, 0};
    const std::string key = normalised(item->key);
    if (item->kind != OriginKind::kEnvironment) {
      const auto [earlier, added] = given.emplace(key, item->name);
      if (!added) {
        const std::string by = earlier->second == item->name ? item->name : earlier->second + " and " + item->name;
        problems->push_back({mark, key, "given twice by " + by, "give it once"});
        continue;
      }
    }
    ParsedText parsed = parse_value_text(item->value, source);
    for (auto& problem : parsed.problems) {
      problem.key = key + (problem.key.empty() ? "" : "." + problem.key);
      problems->push_back(std::move(problem));
    }
    if (parsed.problems.empty()) put(root, key, std::move(parsed.root), mark, problems);
  }
}

Override parse_set(std::string_view text) {
  const size_t at = text.find('=');
  if (at == std::string_view::npos || trim(text.substr(0, at)).empty()) {
    throw Error(ErrorKind::kUsage, "expected KEY=VALUE, got \"" + printable(text) + "\"", "--set",
                "as in --set train.epochs=3");
  }
  return {OriginKind::kSet, "--set", std::string(trim(text.substr(0, at))), std::string(text.substr(at + 1))};
}

}  // namespace gputrain

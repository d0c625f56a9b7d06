// The only file that knows yaml-cpp. It uses the event interface: YAML::Node hides duplicate keys, further documents
// and cycles.
#include <map>
#include <set>
#include <sstream>
#include <unordered_map>

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include "spec/node.h"
#include "spec/source_text.h"
#include "util/text.h"

namespace gputrain {
namespace {

constexpr size_t kMostAliasedNodes = 10000;  // a "billion laughs" document must not fill the memory

size_t count_nodes(const Node& node) {
  size_t count = 1;
  for (const auto& item : node.items) count += count_nodes(item);
  for (const auto& member : node.members) count += count_nodes(member.value);
  return count;
}

class TreeBuilder : public YAML::EventHandler {
 public:
  TreeBuilder(ParsedText* out, int source) : out_(out), source_(source) {}

  void OnDocumentStart(const YAML::Mark& mark) override { ++documents_, document_mark_ = place(mark); }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    Node node;
    node.mark = place(mark);
    add(std::move(node), anchor);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    check_tag(mark, tag);
    Node node;
    node.kind = Node::Kind::kScalar;
    node.text = value;
    node.quoted = tag == "!";
    node.mark = place(mark);
    add(std::move(node), anchor);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    Node node;
    const auto found = anchors_.find(anchor);
    if (found != anchors_.end()) aliased_nodes_ += count_nodes(found->second);
    if (found == anchors_.end()) {
      report(place(mark), "an alias inside the value that it stands for: it would never end", "write the value out");
    } else if (aliased_nodes_ > kMostAliasedNodes) {
      if (!too_many_) report(place(mark), "aliases stand for too many values", "write the values out");
      too_many_ = true;
    } else {
      node = found->second;
    }
    node.mark = place(mark);
    add(std::move(node), 0);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(Node::Kind::kList, mark, tag, anchor);
  }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(Node::Kind::kMap, mark, tag, anchor);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapEnd() override { close(); }

  int documents() const { return documents_; }
  Mark document_mark() const { return document_mark_; }

 private:
  // A list or map that is being read.
  struct Frame {
    Node node;
    YAML::anchor_t anchor = 0;
    bool have_key = false;
    bool skip_value = false;  // its key was refused
    std::string key;
    Mark key_mark;
    std::unordered_map<std::string, int> lines;  // of the keys so far
  };

  Mark place(const YAML::Mark& mark) const {
    return source_ != 0 ? Mark{source_, 0, 0} : Mark{0, mark.line + 1, mark.column + 1};
  }

  void report(Mark mark, std::string message, std::string hint) {
    out_->problems.push_back({mark, path(), std::move(message), std::move(hint)});
  }

  std::string path() const {
    std::string text;
    for (const auto& frame : frames_) {
      if (frame.have_key) text += (text.empty() ? "" : ".") + printable(frame.key);
    }
    return text;
  }

  void check_tag(const YAML::Mark& mark, const std::string& tag) {
    if (!tag.empty() && tag != "?" && tag != "!") {
      report(place(mark), "tags are not supported, got " + printable(tag), "remove the tag");
    }
  }

  void open(Node::Kind kind, const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    check_tag(mark, tag);
    Frame frame;
    frame.node.kind = kind;
    frame.node.mark = place(mark);
    frame.anchor = anchor;
    frames_.push_back(std::move(frame));
  }

  void close() {
    Frame frame = std::move(frames_.back());
    frames_.pop_back();
    add(std::move(frame.node), frame.anchor);
  }

  void add(Node node, YAML::anchor_t anchor) {
    if (anchor != 0) anchors_[anchor] = node;
    if (frames_.empty()) {
      if (documents_ == 1) out_->root = std::move(node);
      return;
    }
    Frame& frame = frames_.back();
    if (frame.node.kind == Node::Kind::kList) {
      frame.node.items.push_back(std::move(node));
    } else if (!frame.have_key) {
      take_key(frame, node);
    } else {
      if (!frame.skip_value) frame.node.members.push_back({frame.key, frame.key_mark, std::move(node)});
      frame.have_key = false;
    }
  }

  void take_key(Frame& frame, const Node& node) {
    frame.have_key = true;
    frame.key = node.text;
    frame.key_mark = node.mark;
    frame.skip_value = true;
    if (node.kind != Node::Kind::kScalar) {
      frame.key = "?";
      report(node.mark, "a key must be a word, got " + describe(node), "");
    } else if (node.text == "<<" && !node.quoted) {
      report(node.mark, "merge keys (<<) are not supported", "write the keys out");
    } else if (auto [first, added] = frame.lines.emplace(node.text, node.mark.line); !added) {
      const std::string where = source_ != 0 ? "twice"
                                             : "twice: first on line " + std::to_string(first->second) +
                                                   ", again on line " + std::to_string(node.mark.line);
      report(node.mark, "the key is given " + where, "remove one of them");
    } else {
      frame.skip_value = false;
    }
  }

  ParsedText* out_;
  int source_;
  int documents_ = 0;
  Mark document_mark_;
  std::vector<Frame> frames_;
  std::map<YAML::anchor_t, Node> anchors_;  // complete ones only: an open one is a cycle
  size_t aliased_nodes_ = 0;
  bool too_many_ = false;
};

struct Wording {
  std::string_view theirs, ours, hint;
};
constexpr Wording kWordings[] = {
    {"end of map flow not found", "a { without its }", ""},
    {"end of sequence flow not found", "a [ without its ]", ""},
    {"illegal map value", "a \":\" that does not belong here", "check the indentation, and the space after each colon"},
    {"bad file", "nested too deeply", ""},
    {"the referenced anchor is not defined", "an alias (*name) of something that has no name here",
     "quote a pattern that begins with a star: \"*.bias\""},
};

Problem yaml_problem(const YAML::Exception& error, const std::vector<std::string>& lines, int source) {
  const Mark mark = source != 0 ? Mark{source, 0, 0} : Mark{0, error.mark.line + 1, error.mark.column + 1};
  if (source == 0) {
    if (auto tab = find_tab_indent(lines, mark.line)) {
      return {*tab, "", "a tab as indentation: YAML allows only spaces there", "replace the tab by spaces"};
    }
  }
  for (const auto& wording : kWordings) {
    if (error.msg == wording.theirs)
      return {mark, "", "not valid YAML: " + std::string(wording.ours), std::string(wording.hint)};
  }
  return {mark, "", "not valid YAML: " + printable(error.msg), ""};
}

void read_yaml(const std::string& text, ParsedText* out, int source) {
  try {
    std::istringstream stream(text);
    YAML::Parser parser(stream);
    TreeBuilder builder(out, source);
    while (builder.documents() < 2 && parser.HandleNextDocument(builder)) {
    }
    if (builder.documents() > 1) {
      out->problems.push_back({builder.document_mark(), "", "a second YAML document: a spec is one document",
                               "remove the line --- and what follows"});
    }
  } catch (const YAML::Exception& error) {
    out->problems.push_back(yaml_problem(error, out->lines, source));
  }
}

}  // namespace

ParsedText parse_text(std::string_view bytes) {
  SourceText source = clean_text(bytes);
  ParsedText out;
  out.lines = std::move(source.lines);
  if (source.problem) {
    out.problems.push_back(*source.problem);
    return out;
  }
  read_yaml(source.text, &out, 0);
  if (!out.problems.empty()) return out;
  if (out.root.kind == Node::Kind::kNull) {
    out.problems.push_back({{}, "", "the file is empty", "gputrain init writes an example"});
  } else if (out.root.kind != Node::Kind::kMap) {
    out.problems.push_back({out.root.mark, "",
                            "expected keys with values at the top of the file, got " + describe(out.root),
                            "gputrain init writes an example"});
  }
  return out;
}

ParsedText parse_value_text(std::string_view bytes, int source) {
  ParsedText out;
  const SourceText clean = clean_text(trim(bytes));
  if (clean.problem) {
    out.problems.push_back({{source, 0, 0}, "", clean.problem->message, ""});
  } else if (!clean.text.empty() && std::string_view("[{\"'").find(clean.text[0]) != std::string_view::npos) {
    read_yaml(clean.text, &out, source);
  } else if (!clean.text.empty()) {
    out.root.kind = Node::Kind::kScalar;
    out.root.text = clean.text;
  }
  out.root.mark = {source, 0, 0};
  return out;
}

}  // namespace gputrain

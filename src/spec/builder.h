#pragma once
// Tree + field table + catalog -> Spec, with every problem on the way. Internal to spec; used once.
#include <string>
#include <vector>

#include "spec/fields.h"
#include "spec/node.h"
#include "spec/rules.h"
#include "spec/spec.h"

namespace gputrain {

class SpecBuilder {
 public:
  explicit SpecBuilder(const SpecInput& input);
  Spec build();  // throws ErrorList

 private:
  // A map of catalog arguments: where its keys live and what else may stand in it.
  struct Scope {
    std::string prefix;             // "optimizer.", "model.args.", "data.train.", "data.transforms.val[1].normalize."
    Mark mark;                      // of the map, for what is missing
    std::vector<std::string> skip;  // keys that are no arguments: "name", "warmup"
  };

  void check_keys(const Node& map, const std::string& prefix);
  void report_unknown(const Member& member, const std::string& prefix);
  const Node* find_node(std::string_view key, Mark* enclosing, bool* blocked) const;

  void read_field(const Field& field);
  void read_given(const Field& field, const Node& node);
  void use_default(const Field& field, Mark enclosing);
  void read_name_arguments(const Field& field);
  void read_model_arguments(const Field& field, const Node* node, Mark enclosing);

  std::vector<Setting> read_arguments(const CatalogEntry& entry, const Node* map, const Scope& scope);
  void read_argument(const CatalogArg& arg, const Node& node, const std::string& key, std::vector<Setting>* out);
  void read_array(const Node& node, const std::string& key, std::vector<Setting>* out);
  Json read_source(const Field& field, const Node& node);
  Json read_transforms(const Field& field, const Node& node);
  void read_transform(const Node& node, const std::string& key, Json* list);
  Json read_scales(const Node& node, const std::string& key);
  void read_free_arguments(const Node& map);
  Json read_hosts(const Node& node, const std::string& key);

  void add(std::string key, Json value, Origin origin);
  void add_place(std::string key, Mark mark);
  Origin origin_of(Mark mark) const;
  void report(Mark mark, std::string key, std::string message, std::string hint = "");
  Error render(const Problem& problem) const;

  Spec spec_;
  Node root_;
  std::vector<Origin> sources_;  // [0] is the file; then the overrides
  std::vector<Problem> problems_;
};

// Puts the overrides' values into the tree, environment first. sources[i + 1] becomes the i-th override's origin.
void apply_overrides(const std::vector<Override>& overrides, Node* root, std::vector<Origin>* sources,
                     std::vector<Problem>* problems);

// What contradicts itself among values that are each right. Settings that could not be read are absent from `spec`.
std::vector<Problem> check_spec(const Spec& spec);

// "did you mean optimizer.lr?" for a key that does not exist under `prefix` ("" or "train."); "" when nothing is near.
std::string suggest_key(const std::string& prefix, const std::string& key);

// The nearest enclosing key that `gputrain explain` knows: "data.train" for "data.train.inputs.path"; "" when there is
// none.
std::string explainable(std::string_view key);

// The one way an error of a spec looks; `lines` is the file's text.
Error render_error(const Problem& problem, const Origin& origin, const std::vector<std::string>& lines, ErrorKind kind);

}  // namespace gputrain

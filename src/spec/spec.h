#pragma once
// From YAML text to a Spec: every value typed and checked, each with the place it came from. Read this first, then
// fields.h (what a spec may hold), resolve.h (Spec -> RunPlan), and explain.h, schema.h, init.h, dry_run.h (what people
// see).
//
// All functions of this module are pure (no files, no environment, no clock) and safe to call from any thread.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "util/error.h"
#include "util/json.h"

namespace gputrain {

// Precedence is flag > environment > file > default; `--set` counts as a flag.
enum class OriginKind { kDefault, kFile, kEnvironment, kSet, kFlag, kSmoke };

// Where a value came from.
struct Origin {
  OriginKind kind = OriginKind::kDefault;
  std::string name;  // the file; "--set"; "--grace"; "GPUTRAIN_GRACE"; "" for defaults
  int line = 0;      // 1-based, files only; 0 = the file as a whole
  int column = 0;    // 1-based, in bytes

  std::string place() const;  // "a.yaml:14:7", "--set", "GPUTRAIN_GRACE", "default", "--smoke": the start of an error
  std::string brief() const;  // "a.yaml:14", else as place(): for --dry-run
};

// A value given outside the file: `--set KEY=VALUE`, a flag such as --grace, or its variable. '-' and '_' are equal in
// the key.
struct Override {
  OriginKind kind = OriginKind::kSet;
  std::string name = "--set";  // how people gave it: "--set", "--nproc-per-node", "GPUTRAIN_NPROC_PER_NODE"
  std::string key;             // dotted: "launch.nproc_per_node", "optimizer.lr", "model.args.hidden"
  std::string value;           // YAML: a scalar or a flow list or map
};

// "train.epochs=3" as written after --set. Throws Error(kUsage) without a key or '='.
Override parse_set(std::string_view text);

// One value. Ints, floats, bools and lists as such; durations, lengths, paths, words as the text that was written
// (checked); data.train, data.val: {"format": ..., arguments...}; transforms: [{"name": ..., "args": {...}}];
// launch.hosts: ["local:2"]; an absent optional section: null.
struct Setting {
  std::string key;
  Json value;
  Origin origin;
};

class Spec {
 public:
  // Every field of fields.h, in its order; catalog arguments follow their name: "model.args.hidden", "optimizer.lr".
  const std::vector<Setting>& settings() const { return settings_; }
  const Setting* find(std::string_view key) const;             // nullptr when there is none
  const Json& at(std::string_view key) const;                  // aborts when there is none: for keys of the field table
  std::optional<int64_t> integer(std::string_view key) const;  // at(key); nullopt when it is a word (auto, none)
  bool given(std::string_view key) const;                      // present, and not by default

  // Origin of a key or of something inside its value ("data.transforms.train[2].normalize.std"): the nearest enclosing
  // one known.
  Origin origin_of(std::string_view key) const;
  // An Error(kind) in compiler style about `key`: place, key, message, the source line with a caret, and how to learn
  // more.
  Error error_at(std::string_view key, const std::string& message, ErrorKind kind = ErrorKind::kSpec,
                 const std::string& hint = "") const;

  const std::string& file() const { return file_; }
  bool smoke() const { return smoke_; }
  void set_smoke() { smoke_ = true; }

  // Replaces a value (smoke_spec and tests). Values must be of the field's type: they are not checked.
  void set(std::string_view key, Json value, Origin origin);
  // Removes catalog arguments: all settings below "model.args", "optimizer" ...
  void erase_under(std::string_view prefix);

 private:
  friend class SpecBuilder;
  std::string file_;
  std::vector<std::string> lines_;  // the source, for excerpts
  std::vector<Setting> settings_;
  std::vector<std::pair<std::string, Origin>> places_;  // parts inside values, and sections
  bool smoke_ = false;
};

// The setting "model.args.NAME" of a model of the catalog; nullptr when there is none, or for a plug-in, whose
// arguments mean what the plug-in says.
const Setting* catalog_argument(const Spec& spec, const std::string& name);

struct SpecInput {
  std::string text;  // the file's bytes, as read
  std::string file;  // its name, for messages
  std::vector<Override> overrides;
};

// Parses and checks everything that does not depend on the machine. Throws ErrorList: all errors at once, in file
// order, each rendered like
//   a.yaml:14:7: train.epochs: expected an integer of at least 1, got "many"
//      14 |   epochs: many
//         |           ^
//   hint: gputrain explain train.epochs
Spec parse_spec(const SpecInput& input);

// The spec as YAML text with all values written out: parse_spec reads it back to equal settings. Echoed as spec.yaml.
std::string to_yaml(const Spec& spec);

// For `launch --smoke`: two ranks, three steps, a global batch of 8, synthetic data of the model's shape, no
// evaluation, no saves but the last, no restarts, everything else as in `base`. nullptr: the model `mlp`. Origins of
// what it sets say --smoke.
Spec smoke_spec(const Spec* base);

}  // namespace gputrain

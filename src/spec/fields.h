#pragma once
// The field table: every key a YAML file may hold, once. Parsing, validation, explain, schema, init and the on-resume
// comparison are all derived from it and from the catalog, so none of them can disagree.
//
// A key is a dotted path ("train.global_batch"). Arguments of catalog entries ("optimizer.lr", "model.args.hidden",
// "data.train.images") are not rows here: rows of type kSource, kArguments and kTransforms, and the rows
// "optimizer.name" and "schedule.name" (whose arguments stand beside the name), refer to the catalog for them.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "spec/catalog/catalog.h"

namespace gputrain {

enum class FieldType {
  kText,  // any word: `no`, `on`, `008` stay text
  kPath,  // relative paths are relative to the working directory
  kInt,
  kFloat,
  kBool,        // true | false, unquoted
  kDuration,    // 30s, 1.5h
  kLength,      // 500 steps, 1 epoch, 5%
  kEvery,       // a length, a duration, or never
  kChoice,      // one of `words`
  kName,        // the name of a catalog entry of `catalog_kind`
  kArguments,   // the map of arguments of the sibling "name"
  kSource,      // a data set: {format: NAME, arguments...}
  kTransforms,  // a list of NAME or {NAME: {arguments...}}
  kIntList,     // [10, 12]
  kTextList,    // [a, "b*"]
  kScales,      // {PATTERN: number, ...}
  kHosts,       // a list of local | local:N | user@host:N | {file: PATH}
};

// What a relaunch with another value of this key does.
enum class OnResume {
  kSame,       // refused: the checkpoint was made with the old value
  kMayChange,  // accepted, listed in the start event and on the console
  kFree,       // the same; it does not change what is learned
};

struct Field {
  std::string_view key;
  FieldType type;
  // What an absent key means, as it would be written in the file; parsed like a file's value. nullopt: the key is
  // required. "none" where `words` has it.
  std::optional<std::string_view> fallback;
  std::string_view unit = "";  // "samples", "steps", "threads"; "" = none
  std::string_view help;       // one or two sentences
  OnResume on_resume = OnResume::kFree;
  std::vector<std::string_view> words = {};  // accepted besides a value (auto, none); for kChoice: all that is accepted
  std::optional<double> least = {}, most = {};
  bool above = false;                              // least is exclusive
  bool below = false;                              // most is exclusive
  int length = 0;                                  // kIntList: number of elements
  CatalogKind catalog_kind = CatalogKind::kModel;  // of kName, kTransforms, kSource
  bool optional_section = false;                   // kSource: may be absent (data.val)
  bool advanced = false;                           // left out of init's example
};

// All rows, in the order of the example in the documentation. Keys are unique.
std::span<const Field> fields();
const Field* find_field(std::string_view key);  // nullptr when there is none

// "train" -> help of the section; "" when there is none.
std::string_view section_help(std::string_view section);

std::string_view to_string(OnResume);  // "must stay the same", ...

}  // namespace gputrain

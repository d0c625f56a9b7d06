#include "model/args.h"

#include <algorithm>

#include "util/error.h"
#include "util/text.h"

namespace gputrain {
namespace {

std::string nearest_hint(std::string_view word, const std::vector<std::string>& candidates) {
  const std::string near = nearest(word, candidates);
  return near.empty() ? "one of " + join_words(candidates, "or") : "did you mean " + near + "?";
}

const CatalogEntry& require_entry(CatalogKind kind, const std::string& name) {
  if (const CatalogEntry* entry = find_entry(kind, name)) return *entry;
  throw Error(ErrorKind::kSpec, "unknown " + std::string(to_string(kind)) + " " + printable(name), "",
              nearest_hint(name, names_of(kind)));
}

bool is_integer(const Json& value) {
  return value.is_number_integer();
}
bool is_number(const Json& value) {
  return value.is_number();
}
bool is_flag(const Json& value) {
  return value.is_boolean();
}
bool is_text(const Json& value) {
  return value.is_string();
}
bool is_integers(const Json& value) {
  return value.is_array() && std::all_of(value.begin(), value.end(), is_integer);
}
bool is_numbers(const Json& value) {
  return value.is_array() && std::all_of(value.begin(), value.end(), is_number);
}

}  // namespace

NamedArgs::NamedArgs(CatalogKind kind, const std::string& name, const Json& args)
    : entry_(&require_entry(kind, name)), args_(args) {
  std::vector<std::string> known;
  known.reserve(entry_->args.size());
  for (const CatalogArg& arg : entry_->args) known.push_back(arg.name);
  for (const auto& [key, value] : args_.items()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    throw Error(ErrorKind::kSpec, name + " has no argument " + printable(key), "", nearest_hint(key, known));
  }
  for (const CatalogArg& arg : entry_->args) {
    if (!args_.contains(arg.name) && arg.fallback) args_[arg.name] = *arg.fallback;
  }
}

template <typename T>
T NamedArgs::get(const std::string& key, const char* type_name, bool (*fits)(const Json&)) const {
  const auto found = args_.find(key);
  if (found == args_.end()) throw Error(ErrorKind::kSpec, name() + " needs the argument " + key);
  if (!fits(*found)) {
    throw Error(ErrorKind::kSpec, name() + "." + key + " must be " + type_name + ", got " + dump_line(*found));
  }
  return found->get<T>();
}

int64_t NamedArgs::integer(const std::string& key) const {
  return get<int64_t>(key, "an integer", is_integer);
}
double NamedArgs::number(const std::string& key) const {
  return get<double>(key, "a number", is_number);
}
bool NamedArgs::flag(const std::string& key) const {
  return get<bool>(key, "true or false", is_flag);
}

std::vector<int64_t> NamedArgs::integers(const std::string& key) const {
  return get<std::vector<int64_t>>(key, "a list of integers", is_integers);
}

std::vector<double> NamedArgs::numbers(const std::string& key) const {
  return get<std::vector<double>>(key, "a list of numbers", is_numbers);
}

std::string NamedArgs::text(const std::string& key) const {
  return get<std::string>(key, "a word", is_text);
}

bool NamedArgs::is_auto(const std::string& key) const {
  const auto found = args_.find(key);
  return found != args_.end() && *found == "auto";
}

}  // namespace gputrain

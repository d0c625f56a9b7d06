#pragma once
// Typed access to the arguments of something named in the catalog (a model, an optimizer), for the factories of the
// runtime.
//
// A RunPlan holds every argument, checked. This reader is the second line, for plans made by hand: it refuses unknown
// names and arguments, fills what is missing from the catalog's default, and says which argument has the wrong type.
// Ranges are the spec's.
#include <cstdint>
#include <string>
#include <vector>

#include "spec/catalog/catalog.h"
#include "util/json.h"

namespace gputrain {

class NamedArgs {
 public:
  // Error(kSpec) when the catalog has no such name, or the name has no such argument.
  NamedArgs(CatalogKind kind, const std::string& name, const Json& args);

  // Error(kSpec) when the argument is missing without a default, or of another type.
  int64_t integer(const std::string& key) const;
  double number(const std::string& key) const;
  bool flag(const std::string& key) const;
  std::vector<int64_t> integers(const std::string& key) const;
  std::vector<double> numbers(const std::string& key) const;
  std::string text(const std::string& key) const;
  bool is_auto(const std::string& key) const;  // where the catalog takes this word for a number

  const std::string& name() const { return entry_->name; }

 private:
  template <typename T>
  T get(const std::string& key, const char* type_name, bool (*fits)(const Json&)) const;

  const CatalogEntry* entry_;
  Json args_;
};

}  // namespace gputrain

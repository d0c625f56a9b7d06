#include "data/args.h"

#include <algorithm>

#include "util/error.h"
#include "util/text.h"

namespace gputrain {

ArgReader::ArgReader(const Json& args, std::string owner, const std::vector<std::string>& known)
    : args_(args), owner_(std::move(owner)) {
  if (args_.is_null()) return;
  if (!args_.is_object()) throw Error(ErrorKind::kSpec, owner_ + ": arguments must be named");
  for (const auto& [name, value] : args_.items()) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    const std::string near = nearest(name, known);
    throw Error(ErrorKind::kSpec, owner_ + " has no argument '" + printable(name) + "'", "",
                !near.empty()   ? "did you mean " + near + "?"
                : known.empty() ? "it takes none"
                                : "it takes " + join_words(known));
  }
}

const Json* ArgReader::find(const std::string& name) const {
  const auto found = args_.find(name);
  return found == args_.end() || found->is_null() ? nullptr : &*found;
}

const Json& ArgReader::need(const std::string& name) const {
  const Json* value = find(name);
  if (!value) throw Error(ErrorKind::kSpec, owner_ + " needs the argument '" + name + "'");
  return *value;
}

void ArgReader::wrong_type(const std::string& name, const char* wanted) const {
  throw Error(ErrorKind::kSpec, owner_ + "." + name + " must be " + wanted + ", not " + dump_line(need(name)));
}

int64_t ArgReader::integer(const std::string& name, std::optional<int64_t> fallback) const {
  if (fallback && !find(name)) return *fallback;
  const Json& value = need(name);
  if (!value.is_number_integer()) wrong_type(name, "an integer");
  return value.get<int64_t>();
}

double ArgReader::number(const std::string& name, std::optional<double> fallback) const {
  if (fallback && !find(name)) return *fallback;
  const Json& value = need(name);
  if (!value.is_number()) wrong_type(name, "a number");
  return value.get<double>();
}

std::string ArgReader::text(const std::string& name, std::optional<std::string> fallback) const {
  if (fallback && !find(name)) return *fallback;
  const Json& value = need(name);
  if (!value.is_string()) wrong_type(name, "a string");
  return value.get<std::string>();
}

std::vector<double> ArgReader::numbers(const std::string& name) const {
  const Json& list = need(name);
  if (!list.is_array() || list.empty()) wrong_type(name, "a list of numbers");
  std::vector<double> values;
  for (const Json& value : list) {
    if (!value.is_number()) wrong_type(name, "a list of numbers");
    values.push_back(value.get<double>());
  }
  return values;
}

std::vector<int64_t> ArgReader::sizes(const std::string& name) const {
  constexpr const char* kWanted = "a shape: a list of integers, each at least 1";
  const Json& list = need(name);
  if (!list.is_array()) wrong_type(name, kWanted);
  constexpr int64_t kMost = int64_t{1} << 48;  // elements: their bytes still fit an int64
  std::vector<int64_t> values;
  int64_t elements = 1;
  for (const Json& value : list) {
    if (!value.is_number_integer() || value.get<int64_t>() < 1) wrong_type(name, kWanted);
    values.push_back(value.get<int64_t>());
    if (values.back() > kMost / elements)
      throw Error(ErrorKind::kSpec, owner_ + "." + name + " is too large: " + dump_line(list));
    elements *= values.back();
  }
  return values;
}

const Json& ArgReader::object(const std::string& name) const {
  const Json& value = need(name);
  if (!value.is_object()) wrong_type(name, "a mapping");
  return value;
}

}  // namespace gputrain

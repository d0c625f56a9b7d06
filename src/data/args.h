#pragma once
// Reads the arguments of a Named or a DataSourcePlan. The spec has checked them against the catalog; this is the
// runtime's own check.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "util/json.h"

namespace gputrain {

// Every method throws Error(kSpec) that names owner and argument: missing without a fallback, or of the wrong type.
class ArgReader {
 public:
  // `owner` is for messages ("normalize", "data.train"). Refuses arguments that are not in `known`. Keeps a reference
  // to `args`.
  ArgReader(const Json& args, std::string owner, const std::vector<std::string>& known);

  int64_t integer(const std::string& name, std::optional<int64_t> fallback = std::nullopt) const;
  double number(const std::string& name, std::optional<double> fallback = std::nullopt) const;
  std::string text(const std::string& name, std::optional<std::string> fallback = std::nullopt) const;
  std::vector<double> numbers(const std::string& name) const;
  std::vector<int64_t> sizes(const std::string& name) const;  // a shape: integers >= 1
  const Json& object(const std::string& name) const;

 private:
  const Json* find(const std::string& name) const;  // nullptr when absent
  const Json& need(const std::string& name) const;
  [[noreturn]] void wrong_type(const std::string& name, const char* wanted) const;

  const Json& args_;
  std::string owner_;
};

}  // namespace gputrain

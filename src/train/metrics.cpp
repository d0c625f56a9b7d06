#include "train/metrics.h"

#include "util/error.h"
#include "util/text.h"

namespace gputrain {
namespace {

constexpr const char* kAverage = "ema_";

}  // namespace

const double* Metrics::find(const std::string& name) const {
  for (const auto& [known, value] : values) {
    if (known == name) return &value;
  }
  return nullptr;
}

double Metrics::at(const std::string& name) const {
  if (const double* value = find(name)) return *value;
  std::vector<std::string> names;
  names.reserve(values.size());
  for (const auto& [known, value] : values) names.push_back(known);
  throw Error(ErrorKind::kSpec, "the metric " + printable(name) + " is not measured here", "",
              "measured are " + join_words(names));
}

double Metrics::judged(const std::string& name) const {
  const double* average = find(kAverage + name);
  return average != nullptr ? *average : at(name);
}

void Metrics::add_average(const Metrics& average) {
  for (const auto& [name, value] : average.values) values.emplace_back(kAverage + name, value);
}

}  // namespace gputrain

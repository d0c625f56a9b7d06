#include <array>

#include "data/sources.h"
#include "util/error.h"
#include "util/text.h"

namespace gputrain {
namespace {

struct Format {
  const char* name;
  std::unique_ptr<Source> (*open)(const SourceRequest&);
};

constexpr std::array<Format, 3> kFormats{{{"idx", open_idx}, {"raw", open_raw}, {"synthetic", open_synthetic}}};

}  // namespace

std::vector<std::string> format_names() {
  std::vector<std::string> names;
  names.reserve(std::size(kFormats));
  for (const Format& format : kFormats) names.emplace_back(format.name);
  return names;
}

std::unique_ptr<Source> open_source(const DataSourcePlan& plan, const std::string& role, int64_t num_classes) {
  for (const Format& format : kFormats) {
    if (plan.format == format.name) return format.open({plan.args, role, num_classes});
  }
  const auto names = format_names();
  throw Error(ErrorKind::kSpec, role + ": unknown data format '" + printable(plan.format) + "'", "",
              "the formats are " + join_words(names));
}

std::string label_problem(int64_t label, int64_t sample, int64_t num_classes) {
  return "has label " + std::to_string(label) + " at sample " + std::to_string(sample) + ", which is not in [0, " +
         std::to_string(num_classes) + ")";
}

}  // namespace gputrain

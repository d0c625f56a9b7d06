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

constexpr std::array<Format, 4> kFormats{
    {{"idx", open_idx}, {"raw", open_raw}, {"tokens", open_tokens}, {"synthetic", open_synthetic}}};

}  // namespace

std::vector<std::string> format_names() {
  std::vector<std::string> names;
  names.reserve(std::size(kFormats));
  for (const Format& format : kFormats) names.emplace_back(format.name);
  return names;
}

std::unique_ptr<Source> open_source(const DataSourcePlan& plan, const std::string& role, const SourceOptions& options) {
  for (const Format& format : kFormats) {
    if (plan.format == format.name) return format.open({plan.args, role, options});
  }
  const auto names = format_names();
  throw Error(ErrorKind::kSpec, role + ": unknown data format '" + printable(plan.format) + "'", "",
              "the formats are " + join_words(names));
}

void need_task(const SourceRequest& request, const std::string& what, Task task) {
  if (request.options.task == task) return;
  throw Error(ErrorKind::kSpec, request.role + ": " + what + " is for the task " + std::string(to_string(task)) +
                                    ", not for " + std::string(to_string(request.options.task)));
}

}  // namespace gputrain

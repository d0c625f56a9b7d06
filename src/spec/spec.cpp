#include "spec/spec.h"

#include <algorithm>

#include "spec/builder.h"
#include "util/text.h"

namespace gputrain {

std::string Origin::place() const {
  if (kind == OriginKind::kDefault) return "default";
  if (kind != OriginKind::kFile || line == 0) return name;
  return name + ":" + std::to_string(line) + ":" + std::to_string(column);
}

std::string Origin::brief() const {
  return kind == OriginKind::kFile && line > 0 ? name + ":" + std::to_string(line) : place();
}

const Setting* Spec::find(std::string_view key) const {
  const auto found = std::ranges::find(settings_, key, &Setting::key);
  return found == settings_.end() ? nullptr : &*found;
}

const Json& Spec::at(std::string_view key) const {
  const Setting* setting = find(key);
  GP_CHECK(setting != nullptr, "the spec has no \"" + std::string(key) + "\"");
  return setting->value;
}

std::optional<int64_t> Spec::integer(std::string_view key) const {
  const Json& value = at(key);
  return value.is_number_integer() ? std::optional(value.get<int64_t>()) : std::nullopt;
}

bool Spec::given(std::string_view key) const {
  const Setting* setting = find(key);
  return setting != nullptr && setting->origin.kind != OriginKind::kDefault;
}

Origin Spec::origin_of(std::string_view key) const {
  while (!key.empty()) {
    const Setting* setting = find(key);
    if (setting != nullptr && setting->origin.kind != OriginKind::kDefault) return setting->origin;
    for (const auto& [place, origin] : places_) {
      if (place == key) return origin;
    }
    const size_t cut = key.find_last_of(".[");
    key = cut == std::string_view::npos ? std::string_view() : key.substr(0, cut);
  }
  return {OriginKind::kFile, file_, 0, 0};
}

Error Spec::error_at(std::string_view key, const std::string& message, ErrorKind kind, const std::string& hint) const {
  return render_error({{}, std::string(key), message, hint}, origin_of(key), lines_, kind);
}

void Spec::set(std::string_view key, Json value, Origin origin) {
  const auto found = std::ranges::find(settings_, key, &Setting::key);
  if (found == settings_.end()) {
    settings_.push_back({std::string(key), std::move(value), std::move(origin)});
  } else {
    found->value = std::move(value);
    found->origin = std::move(origin);
  }
}

void Spec::erase_under(std::string_view prefix) {
  const std::string stem = std::string(prefix) + ".";
  std::erase_if(settings_,
                [&](const Setting& setting) { return setting.key.starts_with(stem) && !find_field(setting.key); });
}

Spec parse_spec(const SpecInput& input) {
  return SpecBuilder(input).build();
}

Error render_error(const Problem& problem, const Origin& origin, const std::vector<std::string>& lines,
                   ErrorKind kind) {
  std::string message = problem.key.empty() ? problem.message : problem.key + ": " + problem.message;
  const bool in_file =
      origin.kind == OriginKind::kFile && origin.line >= 1 && origin.line <= static_cast<int>(lines.size());
  if (in_file) message += "\n" + source_excerpt(lines[origin.line - 1], origin.line, origin.column);

  std::string hint = problem.hint;
  const std::string look_up = problem.explain.empty() ? explainable(problem.key) : problem.explain;
  if (!look_up.empty() && look_up != "-") {
    if (!hint.empty()) hint += hint.ends_with('?') ? " " : "; ";
    hint += "gputrain explain " + look_up;
  }
  return Error(kind, message, origin.place(), hint);
}

std::string explainable(std::string_view key) {
  while (!key.empty()) {
    if (find_field(key) != nullptr || !section_help(key).empty()) return std::string(key);
    for (const auto& [prefix, kind] : {std::pair{"optimizer.", CatalogKind::kOptimizer},
                                       {"schedule.", CatalogKind::kSchedule},
                                       {"model.args.", CatalogKind::kModel}}) {
      if (!key.starts_with(prefix)) continue;
      const std::string_view name = key.substr(std::string_view(prefix).size());
      for (const auto& entry : catalog()) {
        if (entry.kind == kind && std::ranges::find(entry.args, name, &CatalogArg::name) != entry.args.end())
          return std::string(key);
      }
    }
    const size_t cut = key.find_last_of(".[");
    key = cut == std::string_view::npos ? std::string_view() : key.substr(0, cut);
  }
  return "";
}

const Setting* catalog_argument(const Spec& spec, const std::string& name) {
  const Setting* model = spec.find("model.name");
  return model == nullptr || model->value == "none" ? nullptr : spec.find("model.args." + name);
}

}  // namespace gputrain

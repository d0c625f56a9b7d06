#include "spec/changes.h"

#include "spec/spec.h"
#include "spec/yaml_text.h"
#include "util/text.h"

namespace gputrain {

Json spec_changes(const std::string& before, const std::string& now) {
  Json changes = Json::array();
  try {
    const Spec old_spec = parse_spec({before, "spec.yaml", {}}), new_spec = parse_spec({now, "spec.yaml", {}});
    for (const auto& setting : new_spec.settings()) {
      const Setting* old_setting = old_spec.find(setting.key);
      const Json from = old_setting == nullptr ? Json() : old_setting->value;
      if (from != setting.value) changes.push_back({{"key", setting.key}, {"from", from}, {"to", setting.value}});
    }
    for (const auto& setting : old_spec.settings()) {
      if (new_spec.find(setting.key) == nullptr)
        changes.push_back({{"key", setting.key}, {"from", setting.value}, {"to", nullptr}});
    }
  } catch (const ErrorList&) {
    return Json::array();
  }
  return changes;
}

std::string changes_text(const Json& changes) {
  std::vector<std::string> texts;
  for (const auto& change : changes) {
    const auto key = change.at("key").get<std::string>();
    const auto side = [&](const char* name) { return yaml_value({key, change.at(name), {}}); };
    texts.push_back(key + " " + side("from") + " -> " + side("to"));
  }
  return join(texts, ", ");
}

}  // namespace gputrain

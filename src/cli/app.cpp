#include "cli/app.h"

#include <algorithm>
#include <cctype>

#include "cli/environment.h"

namespace gputrain {

std::string environment_name(const std::string& flag) {
  std::string name = "GPUTRAIN_";
  for (char c : flag.substr(flag.find_first_not_of('-'))) {
    name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return name;
}

void add_spec_flag(CLI::App& command, SpecFlag& flag) {
  flag.option = command.add_option(flag.flag, flag.value, flag.help + " [" + flag.key + "]");
}

std::vector<Override> overrides_of(const std::vector<SpecFlag>& flags, const std::vector<std::string>& sets) {
  std::vector<Override> overrides;
  for (const auto& flag : flags) {
    if (flag.option->count() > 0) {
      overrides.push_back({OriginKind::kFlag, flag.flag, flag.key, flag.value});
    } else if (auto value = environment_variable(environment_name(flag.flag))) {
      overrides.push_back({OriginKind::kEnvironment, environment_name(flag.flag), flag.key, *value});
    }
  }
  for (const auto& text : sets) overrides.push_back(parse_set(text));
  return overrides;
}

void bracket_hosts(std::vector<Override>& overrides) {
  for (auto& item : overrides) {
    if (item.key == "launch.hosts" && item.kind != OriginKind::kSet) item.value = "[" + item.value + "]";
  }
}

void apply_environment(CLI::App& command, const std::vector<SpecFlag>& spec_flags) {
  for (CLI::Option* option : command.get_options()) {
    const std::string name = option->get_name();
    const bool of_spec =
        std::any_of(spec_flags.begin(), spec_flags.end(), [&](const SpecFlag& flag) { return flag.flag == name; });
    if (name.starts_with("--") && name != "--help" && name != "--set" && !of_spec)
      option->envname(environment_name(name));
  }
}

}  // namespace gputrain

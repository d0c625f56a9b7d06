#include "cli/app.h"

#include <algorithm>
#include <cctype>

#include "cli/environment.h"
#include "util/text.h"

namespace gputrain {
namespace {

constexpr std::string_view kPrefix = "GPUTRAIN_";

bool has_variable(const std::string& flag) {
  return flag.starts_with("--") && flag != "--help" && flag != "--set";
}

}  // namespace

std::string environment_name(const std::string& flag) {
  std::string name(kPrefix);
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
  std::vector<CLI::Option*> options;
  for (CLI::Option* option : command.get_options()) {
    const std::string name = option->get_name();
    const bool of_spec =
        std::any_of(spec_flags.begin(), spec_flags.end(), [&](const SpecFlag& flag) { return flag.flag == name; });
    if (has_variable(name) && !of_spec) options.push_back(option);
  }
  command.preparse_callback([options](size_t) {
    for (CLI::Option* option : options) option->envname(environment_name(option->get_name()));
  });
}

std::vector<std::string> unknown_variables(const CLI::App& app) {
  std::vector<std::string> known{"WORKER",    "CACHE",      "BUILD",
                                 "BUILD_DIR", "BUILD_TYPE", "LIBTORCH"};  // all but the first are the scripts'
  for (const auto* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    for (const auto* option : command->get_options()) {
      const std::string flag = option->get_name();
      if (has_variable(flag)) known.push_back(environment_name(flag).substr(kPrefix.size()));
    }
  }
  std::vector<std::string> lines;
  for (const std::string& name : variables_with(kPrefix)) {
    const std::string rest = name.substr(kPrefix.size());
    if (rest.starts_with("INTERNAL_")) continue;
    if (std::find(known.begin(), known.end(), rest) != known.end()) continue;
    const std::string near = nearest(rest, known);
    lines.push_back("the environment variable " + printable(name) + " means nothing to gputrain" +
                    (near.empty() ? "" : "; did you mean " + std::string(kPrefix) + near + "?"));
  }
  return lines;
}

}  // namespace gputrain

// validate, explain, schema, init, version: what can be known about a spec without running it.
#include <iostream>
#include <memory>

#include "cli/app.h"
#include "cli/environment.h"
#include "cli/show.h"
#include "gputrain_version.h"
#include "spec/explain.h"
#include "spec/init.h"
#include "spec/resolve.h"
#include "spec/schema.h"

namespace gputrain {
namespace {

struct ValidateFlags {
  std::string config;
  std::vector<std::string> sets;
};

int validate(const ValidateFlags& flags) {
  const Spec spec = parse_spec({read_spec_file(flags.config), flags.config, overrides_of({}, flags.sets)});
  std::vector<Notice> notices;
  const RunPlan plan = resolve(spec, host_facts(), &notices);
  show_notices(notices);
  std::cerr << flags.config << ": valid: " << plan.model.title() << ", global batch " << plan.train.global_batch
            << " over " << plan.launch.world_size << (plan.launch.world_size == 1 ? " rank" : " ranks")
            << " of this machine\n";
  return 0;
}

}  // namespace

void add_spec_commands(CLI::App& app, Action& action) {
  auto flags = std::make_shared<ValidateFlags>();
  auto* validate_command = app.add_subcommand("validate", "Check a spec: every problem at once, with line and remedy");
  validate_command->add_option("CONFIG", flags->config, "the YAML file")->required();
  validate_command->add_option("--set", flags->sets, "override a value: key=value (repeatable)")
      ->allow_extra_args(false);
  validate_command->callback([&action, flags] { action = [flags] { return validate(*flags); }; });

  auto key = std::make_shared<std::string>();
  auto* explain_command = app.add_subcommand("explain", "Say what a key of the spec means (all keys without one)");
  explain_command->add_option("KEY", *key, "a key, section, argument or catalog name, e.g. train.epochs, adamw");
  explain_command->callback([&action, key] {
    action = [key] {
      std::cout << (key->empty() ? explain_all() : explain(*key));
      return 0;
    };
  });

  app.add_subcommand("schema", "Print the JSON Schema of the spec, for editors")->callback([&action] {
    action = [] {
      std::cout << json_schema().dump(2) << "\n";
      return 0;
    };
  });
  app.add_subcommand("init", "Print a complete, commented example spec")->callback([&action] {
    action = [] {
      std::cout << example_yaml();
      return 0;
    };
  });
  app.add_subcommand("version", "Print the version")->callback([&action] {
    action = [] {
      std::cout << "gputrain " << GPUTRAIN_VERSION << "\n";
      return 0;
    };
  });
}

}  // namespace gputrain

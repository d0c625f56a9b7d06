// gputrain: parses the command line, runs one command, renders its errors.
#include <algorithm>
#include <cerrno>
#include <exception>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include <unistd.h>

#include "cli/app.h"
#include "gputrain_version.h"
#include "sys/files.h"
#include "sys/process.h"
#include "util/error.h"
#include "util/text.h"

namespace gputrain {
namespace {

// "--nproc_per_node=2" and "--nproc-per-node=2" are the same flag.
std::string with_dashes(std::string argument) {
  if (!argument.starts_with("--")) return argument;
  for (char& c : argument) {
    if (c == '=') break;
    if (c == '_') c = '-';
  }
  return argument;
}

std::vector<std::string> arguments_reversed(int argc, char** argv) {
  std::vector<std::string> arguments;
  bool flags = true;
  for (int i = 1; i < argc; ++i) {
    flags = flags && std::string_view(argv[i]) != "--";
    arguments.insert(arguments.begin(), flags ? with_dashes(argv[i]) : argv[i]);
  }
  return arguments;
}

// The nearest command or flag to each word the parser did not expect.
std::string suggestion(const CLI::App& app, int argc, char** argv) {
  std::vector<std::string> known;
  const CLI::App* command = app.get_subcommands().empty() ? &app : app.get_subcommands().front();
  for (const auto* option : command->get_options()) known.push_back(option->get_name());
  if (command == &app) {
    for (const auto* sub : app.get_subcommands([](const CLI::App*) { return true; })) known.push_back(sub->get_name());
  }
  for (int i = 1; i < argc; ++i) {
    const std::string word = with_dashes(argv[i]);
    const std::string name = word.substr(0, word.find('='));
    if (std::find(known.begin(), known.end(), name) != known.end() || name == command->get_name()) continue;
    if (const auto near = nearest(name, known); !near.empty()) return "did you mean " + near + "?";
  }
  return "see `gputrain " + (command == &app ? "" : command->get_name() + " ") + "--help`";
}

void print_error(const std::string& text) {
  std::cerr << "gputrain: error: " << text << "\n";
}

int run(int argc, char** argv) {
  CLI::App app{"Trains a model on every GPU you have rented, from one YAML file, and does not lose your work.",
               "gputrain"};
  app.require_subcommand(1);
  app.set_version_flag("--version", GPUTRAIN_VERSION);
  Action action;
  add_launch_command(app, action);
  add_eval_command(app, action);
  add_spec_commands(app, action);
  add_run_commands(app, action);
  add_agent_command(app, action);
  try {
    app.parse(arguments_reversed(argc, argv));
  } catch (const CLI::ParseError& problem) {
    if (problem.get_exit_code() == 0) return app.exit(problem);  // --help, --version
    const bool unknown = app.get_subcommands().empty() && argc > 1 && argv[1][0] != '-';
    print_error((unknown ? "there is no command " + printable(argv[1]) : std::string(problem.what())) +
                "\nhint: " + suggestion(app, argc, argv));
    return static_cast<int>(ExitCode::kUsage);
  }
  if (!app.got_subcommand("agent")) {
    for (const auto& line : unknown_variables(app)) std::cerr << "notice: " << line << "\n";
  }
  return action();
}

// run(), with its errors told.
int run_and_tell(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const ErrorList& list) {
    for (const auto& error : list.errors) print_error(error.render());
    return static_cast<int>(exit_code(list.errors.front().kind));
  } catch (const Error& error) {
    print_error(error.render());
    return static_cast<int>(exit_code(error.kind));
  } catch (const std::exception& problem) {
    print_error(std::string(problem.what()) +
                "\nhint: this is a fault of gputrain itself; please report it with the command line and the spec");
    return static_cast<int>(ExitCode::kInternal);
  }
}

// Data that could not be written is no success; a reader that went away (`| head`) is.
int deliver(const std::string& data, int code) {
  if (write_all(STDOUT_FILENO, data) == data.size() || errno == EPIPE || code != 0) return code;
  print_error("cannot write to standard output: " + errno_text(errno));
  return static_cast<int>(exit_code(ErrorKind::kOutput));
}

}  // namespace
}  // namespace gputrain

int main(int argc, char** argv) {
  using namespace gputrain;  // NOLINT: the one place where the program leaves its namespace
  ignore_sigpipe();
  // Kept to the end: a stream that meets a full disk half-way no longer knows why it failed.
  std::ostringstream data;
  auto* const standard = std::cout.rdbuf(data.rdbuf());
  const int code = run_and_tell(argc, argv);
  std::cout.rdbuf(standard);
  return deliver(data.str(), code);
}

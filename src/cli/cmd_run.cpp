// status, logs, stop: about a run that somebody else started. RUN is an output directory; by default the newest under
// runs/.
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <thread>

#include "cli/app.h"
#include "launch/control_socket.h"
#include "launch/history.h"
#include "launch/lock.h"
#include "launch/log_path.h"
#include "monitor/journal_reader.h"
#include "sys/fs.h"
#include "sys/process.h"
#include "util/error.h"
#include "util/foreign_json.h"
#include "util/text.h"
#include "util/units.h"

namespace gputrain {
namespace {

namespace stdfs = std::filesystem;

struct RunFlags {
  std::string run;
  bool json = false;
  bool now = false;
  int rank = 0;
  std::optional<int> attempt, tail;
};

// The run directory meant by RUN: itself, or the one under runs/ whose events moved last.
std::string find_run(const std::string& given) {
  std::error_code ignored;
  if (!given.empty()) {
    if (stdfs::exists(given + "/events.jsonl", ignored) || stdfs::exists(given + "/lock", ignored))
      return stdfs::absolute(given).lexically_normal();
    std::error_code problem;
    if (!stdfs::exists(given, problem))
      throw Error(ErrorKind::kUsage, problem ? problem.message() : "no such directory", given);
    throw Error(ErrorKind::kUsage, "not a run directory: it has neither events.jsonl nor a lock", given);
  }
  std::string newest;
  stdfs::file_time_type newest_time{};
  for (const auto& entry : stdfs::directory_iterator("runs", ignored)) {
    for (const char* file : {"/events.jsonl", "/lock"}) {
      const auto time = stdfs::last_write_time(entry.path().string() + file, ignored);
      if (!ignored && (newest.empty() || time > newest_time)) {
        newest = stdfs::absolute(entry.path()).lexically_normal();
        newest_time = time;
      }
    }
  }
  if (newest.empty())
    throw Error(ErrorKind::kUsage, "no run found under runs/", "",
                "name a run's output directory: gputrain status OUTPUT");
  return newest;
}

std::string words(const Json& value) {
  return value.is_string() ? value.get<std::string>() : dump_line(value);
}

// The controller's answer, or nullopt when no live controller of this host holds the run.
std::optional<Json> ask(const std::string& output, const Json& request) {
  const auto lock = read_lock(output);
  if (!lock || lock->socket.empty() || !is_of_this_host(*lock)) return std::nullopt;
  if (judge_lock(output, *lock) == Liveness::kDead) return std::nullopt;
  const Json status = control_request(lock->socket, {{"request", "status"}});
  // Where the file system cannot tell a copied lock from its original, the original's controller answers.
  std::error_code ignored;
  if (!stdfs::equivalent(status.value("output", ""), output, ignored)) return std::nullopt;
  if (request["request"] == "status") return status;
  const Json reply = control_request(lock->socket, request);
  if (reply.contains("error")) {
    throw Error(ErrorKind::kEnvironment, "the run's controller refuses: " + words(reply["error"]), lock->socket);
  }
  return reply;
}

// Who holds the run from where its controller cannot be asked, if anybody does.
std::optional<LockInfo> holder_elsewhere(const std::string& output) {
  const auto lock = read_lock(output);
  return lock && !is_of_this_host(*lock) ? lock : std::nullopt;
}

std::string whence(const LockInfo& holder) {
  return holder.host == host_name() ? ", another boot of this host" : holder.torn ? "" : ", another host";
}

int64_t member_or_zero(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number_integer() ? found->get<int64_t>() : 0;
}

void take_event(const Json& record, Json& status) {
  if (!record.is_object() || !record.contains("kind")) return;
  // Attempts only grow, but the newest step, which is taken last, may be of an attempt before the newest.
  const int64_t attempt = member_or_zero(record, "attempt");
  if (attempt > member_or_zero(status, "attempt")) status["attempt"] = attempt;
  if (record["kind"] == "start") {
    status["state"] = "ended without a word (killed?)";
    for (const char* key : {"run_id", "total_steps", "world_size"}) {
      if (record.contains(key)) status[key] = record[key];
    }
  }
  if (record["kind"] == "step" && record.contains("step")) status["step"] = record["step"];
  if (record["kind"] == "checkpoint" && record.contains("step")) status["saved_step"] = record["step"];
  if (record["kind"] == "eval") status["eval"] = record;
}

// What the files say about a run that is not running, or not here: also of a killed one. A lock from where nobody can
// be asked proves nothing: after a reboot it is mostly a dead run's.
Json status_from_files(const std::string& output) {
  FileSystem& fs = real_file_system();
  Json status{{"output", output}, {"state", "unknown"}};
  const std::string events = output + "/events.jsonl";
  take_event(parse_foreign_json(first_line(fs, events)), status);
  std::string step;  // the newest whole one: of the steps only that is parsed
  read_tail(fs, events, [&](std::string_view line) {
    if (is_step_line(line)) {
      if (line.ends_with('}')) step = line;
    } else {
      take_event(parse_foreign_json(line), status);
    }
  });
  take_event(parse_foreign_json(step), status);
  if (fs.exists(output + "/result.json")) {
    const Json result = parse_foreign_json(fs.read(output + "/result.json"));
    if (result.is_object()) {
      status["state"] = result.value("outcome", "unknown");
      status["result"] = result;
      status["result"]["output"] = output;  // of a copied or moved run directory it names the original
    }
  }
  if (const auto holder = holder_elsewhere(output)) {
    status["holder"] = "perhaps " + holder_text(*holder) + whence(*holder);
  }
  return status;
}

void print_status(const Json& status) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& [key, value] : status.items()) {
    if (key == "ranks" || key == "result" || key == "eval" || (key == "saved_step" && value == -1)) continue;
    rows.push_back({key, printable(words(value))});
  }
  std::cout << render_table(rows);
  if (!status.contains("ranks")) return;
  rows = {{"rank", "host", "pid", "state"}};
  for (const auto& rank : status["ranks"])
    rows.push_back({words(rank["rank"]), words(rank["host"]), words(rank["pid"]), words(rank["state"])});
  std::cout << render_table(rows);
}

int show_status(const RunFlags& flags) {
  const std::string output = find_run(flags.run);
  const auto live = ask(output, {{"request", "status"}});
  const Json status = live ? *live : status_from_files(output);
  if (flags.json) {
    std::cout << status.dump(2) << "\n";
  } else {
    print_status(status);
  }
  return 0;
}

// Oldest first. A scheduler's log may lie among them.
std::vector<std::string> attempts_with_logs(const std::string& output) {
  std::map<int64_t, std::string> attempts;
  for (const auto& name : real_file_system().list(output + "/logs")) {
    if (const auto number = attempt_number(name)) attempts[*number] = name;
  }
  std::vector<std::string> names;
  names.reserve(attempts.size());
  for (const auto& [number, name] : attempts) names.push_back(name);
  return names;
}

// The last line need not have ended.
std::string last_lines(const std::string& text, int count) {
  size_t begin = text.size() - (text.ends_with('\n') ? 1 : 0);
  for (; begin > 0; --begin) {
    if (text[begin - 1] == '\n' && --count == 0) break;
  }
  return text.substr(begin);
}

int show_logs(const RunFlags& flags) {
  if (flags.rank < 0)
    throw Error(ErrorKind::kUsage, "expected a rank, 0 or above, got " + std::to_string(flags.rank), "--rank");
  for (const auto& [flag, value] : {std::pair("--attempt", flags.attempt), std::pair("--tail", flags.tail)}) {
    if (value && *value < 1) throw Error(ErrorKind::kUsage, "expected 1 or more, got " + std::to_string(*value), flag);
  }
  const std::string output = find_run(flags.run);
  const auto attempts = attempts_with_logs(output);
  if (attempts.empty()) throw Error(ErrorKind::kUsage, "the run has no logs yet", output + "/logs");
  const std::string attempt = flags.attempt ? attempt_name(*flags.attempt) : attempts.back();
  const std::string path = rank_log_path(output, attempt, flags.rank);
  if (!real_file_system().exists(path)) {
    const auto logs = real_file_system().list(output + "/logs/" + attempt);
    throw Error(ErrorKind::kUsage, "no such log", path,
                "attempts here: " + join_words(attempts) +
                    (logs.empty() ? "" : "; logs of " + attempt + ": " + join_words(logs)));
  }
  const std::string log = real_file_system().read(path);
  if (log.empty()) std::cerr << path << " is empty\n";
  std::cout << (flags.tail ? last_lines(log, *flags.tail) : log);
  return 0;
}

int stop_run(const RunFlags& flags) {
  const std::string output = find_run(flags.run);
  const auto reply = ask(output, {{"request", "stop"}, {"now", flags.now}});
  if (!reply) {
    if (const auto holder = holder_elsewhere(output)) {
      const bool rebooted = holder->host == host_name() || holder->torn;
      throw Error(ErrorKind::kEnvironment,
                  "held by " + holder_text(*holder) + whence(*holder) + ": it cannot be asked from here", output,
                  rebooted ? "if this host has booted since, the run is gone: launch again, it takes over after 20 s"
                           : "run `gputrain stop` there; when that is gone, launch again: it takes over after 20 s");
    }
    std::cerr << output << ": no run is active there\n";
    return 0;
  }
  std::cerr << "stopping " << output << (flags.now ? " now, without saving\n" : ": saving first\n");
  const auto asked = read_lock(output);  // who launches again meanwhile is another holder
  for (auto lock = asked; lock && same_holder(*lock, *asked) && judge_lock(output, *lock) != Liveness::kDead;
       lock = read_lock(output)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  std::cerr << "stopped\n";
  return 0;
}

}  // namespace

void add_run_commands(CLI::App& app, Action& action) {
  const auto add = [&](const char* name, const char* help, int (*function)(const RunFlags&)) {
    auto flags = std::make_shared<RunFlags>();
    auto* command = app.add_subcommand(name, help);
    command->add_option("RUN", flags->run, "a run's output directory; the newest under runs/ without it");
    command->callback([&action, flags, function] { action = [flags, function] { return function(*flags); }; });
    return std::pair(command, flags);
  };
  auto [status, status_flags] = add("status", "Show where a run is", show_status);
  status->add_flag("--json", status_flags->json, "as JSON");
  apply_environment(*status);
  auto [logs, logs_flags] =
      add("logs", "Print what a rank wrote to its stdout and stderr (step records are in events.jsonl)", show_logs);
  logs->add_option("--rank", logs_flags->rank, "which rank")->capture_default_str();
  logs->add_option("--attempt", logs_flags->attempt, "which attempt; the newest without it");
  logs->add_option("--tail", logs_flags->tail, "only the last lines");
  apply_environment(*logs);
  auto [stop, stop_flags] = add("stop", "Stop a run: it saves, then exits 77", stop_run);
  stop->add_flag("--now", stop_flags->now, "without saving");
  apply_environment(*stop);
}

}  // namespace gputrain

// A rank without training: speaks the worker's side of the protocol (src/wire/WIRE.md) as told by FAKE_WORKER_SCRIPT,
// so that tests of agents, controller and exit codes decide what each rank does. No LibTorch: it starts in a
// millisecond.
//
// FAKE_WORKER_SCRIPT is JSON: {KEY: [STEP...]}, where the rank's list is the first present of "RANK@ATTEMPT", "RANK",
// "*@ATTEMPT", "*". Without a list it does what kDefaultScript says. A list that ends exits 0. Steps:
//   {"hello": {...}}              overrides fields of WorkerHello; only as the first step (hello and the wait for
//   Assign come by themselves)
//   {"ready": {...}}              Ready; fields given replace the defaults
//   {"wait": "go"|"stop"|"release"|"forever"}
//   {"steps": n, "every_ms": m}   n training steps: progress page on every rank, step records from rank 0
//   {"checkpoint": true, "why": "every"}   Sync, wait for Synced, checkpoint record of the present step; rank 0 only
//   {"record": {...}}             a Record of this rank, as given
//   {"big_records": n, "bytes": b}   n Records {"kind": "test", "i": 0...n-1, "padding": b bytes}
//   {"progress": {"step": n, "phase": "backward"}}
//   {"done": {...}}               Done; fields given replace the defaults
//   {"error": {"kind": "data", "message": "...", "where": "", "hint": "", "culprit": -1}}   WorkerError, then exit
//   with that kind's code
//   {"exit": code} {"signal": n} {"sleep_ms": n}
//   {"print": "text", "times": 1} on stdout, without a line end of its own
//   {"print_fds": true}           the numbers of the open descriptors; {"print_env": "NAME"} NAME=value;
//   {"print_assign": true}
//   {"ignore_term": true}         SIGTERM is ignored; otherwise it acts like Stop{preempted}
//   {"fork_grandchild": "group"|"session"}   a child that outlives us if nobody ends it; prints "grandchild PID"
//   {"raw": "bytes"}              bytes on the socket that need not be a frame; {"close_socket": true}
//   {"on_stop": [STEP...]}        what a Stop (or SIGTERM) changes to, from any step that waits; default kDefaultOnStop
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>

#include <dirent.h>
#include <poll.h>
#include <unistd.h>

#include "sys/process.h"
#include "sys/shared_page.h"
#include "util/json.h"
#include "wire/codec.h"
#include "wire/env.h"
#include "wire/progress_page.h"

namespace gputrain {
namespace {

constexpr char kDefaultScript[] =
    R"([{"ready": {}}, {"wait": "go"}, {"steps": 3, "every_ms": 1}, {"checkpoint": true, "why": "last"},
                                      {"done": {}}, {"wait": "release"}, {"exit": 0}])";
constexpr char kDefaultOnStop[] =
    R"([{"checkpoint": true, "why": "stop"}, {"done": {"outcome": "stopped"}}, {"wait": "release"}, {"exit": 0}])";

volatile sig_atomic_t term_received = 0;
extern "C" void on_term(int) {
  term_received = 1;
}

struct StopSeen {};  // thrown by a waiting step when a stop comes

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

class FakeWorker {
 public:
  void run();

 private:
  Json script() const;
  void run_steps(const Json& steps);
  void run_step(const Json& step);
  void run_process_step(const std::string& name, const Json& step);
  void run_wire_step(const std::string& name, const Json& step);
  void hello(const Json& overrides);
  void ready(const Json& overrides);
  void done(const Json& overrides);
  [[noreturn]] void error(const Json& what);
  void train(const Json& step);
  void checkpoint(const std::string& why);
  void progress(uint64_t step, Phase phase);

  void send(const Message& message);
  void take(const Message& message);
  void pump(int timeout_ms);
  void sleep(int ms);
  void wait(const std::string& what);
  void check_stop();

  int fd_ = env::kWorkerSocketFd;
  Decoder decoder_;
  SharedPage page_memory_ = SharedPage::map(UniqueFd(env::kProgressPageFd), sizeof(ProgressPage));
  ProgressPage& page_ = *static_cast<ProgressPage*>(page_memory_.data());
  Assign assign_;
  bool assigned_ = false, go_ = false, release_ = false;
  StopReason stop_ = StopReason::kNone;
  bool stopping_ = false;  // on_stop runs: a further stop changes nothing
  Json on_stop_ = Json::parse(kDefaultOnStop);
  int64_t step_ = 0, saved_step_ = -1, syncs_ = 0, synced_ = 0;
};

Json FakeWorker::script() const {
  const std::string text = variable("FAKE_WORKER_SCRIPT"), rank = variable("RANK");
  const std::string attempt = std::to_string(std::atoi(variable("TORCHELASTIC_RESTART_COUNT").c_str()) + 1);
  const Json scripts = text.empty() ? Json::object() : parse_json(text, "FAKE_WORKER_SCRIPT");
  for (const auto& key : {rank + "@" + attempt, rank, "*@" + attempt, std::string("*")}) {
    if (scripts.contains(key)) return scripts[key];
  }
  return Json::parse(kDefaultScript);
}

void FakeWorker::run() {
  struct sigaction action {};
  action.sa_handler = on_term;
  sigaction(SIGTERM, &action, nullptr);
  sigset_t term;
  sigemptyset(&term);
  sigaddset(&term, SIGTERM);
  sigprocmask(SIG_UNBLOCK, &term, nullptr);

  Json steps = script();
  const bool has_hello = !steps.empty() && steps[0].contains("hello");
  hello(has_hello ? steps[0]["hello"] : Json::object());
  if (has_hello) steps.erase(0);
  while (!assigned_) pump(-1);
  run_steps(steps);
}

void FakeWorker::run_steps(const Json& steps) {
  try {
    for (const auto& step : steps) run_step(step);
  } catch (const StopSeen&) {
    stopping_ = true;
    run_steps(on_stop_);
  }
}

void FakeWorker::run_step(const Json& step) {
  const std::string name = step.begin().key();
  run_process_step(name, step);
  run_wire_step(name, step);
}

pid_t fork_sleeper(bool own_session) {
  const pid_t pid = fork();
  if (pid != 0) return pid;
  if (own_session) setsid();
  std::signal(SIGTERM, SIG_IGN);
  while (true) pause();
}

void print_fds() {
  std::string text = "fds";
  DIR* directory = opendir("/proc/self/fd");
  while (const dirent* entry = readdir(directory)) {
    const std::string name = entry->d_name;
    if (name[0] != '.' && name != std::to_string(dirfd(directory))) text += " " + name;
  }
  closedir(directory);
  std::printf("%s\n", text.c_str());
}

void FakeWorker::run_process_step(const std::string& name, const Json& step) {
  const Json& value = step.begin().value();
  if (name == "exit") {
    std::exit(value.get<int>());
  } else if (name == "signal") {
    std::signal(value.get<int>(), SIG_DFL);
    kill(getpid(), value.get<int>());
  } else if (name == "sleep_ms") {
    sleep(value.get<int>());
  } else if (name == "print") {
    const auto& text = value.get_ref<const std::string&>();
    for (int64_t i = step.value("times", int64_t{1}); i > 0; --i) std::fwrite(text.data(), 1, text.size(), stdout);
  } else if (name == "print_env") {
    const auto variable_name = value.get<std::string>();
    std::printf("%s=%s\n", variable_name.c_str(), variable(variable_name.c_str()).c_str());
  } else if (name == "print_assign") {
    std::printf("assign %s\n", dump_line(to_json(assign_)).c_str());
  } else if (name == "print_fds") {
    print_fds();
  } else if (name == "ignore_term") {
    std::signal(SIGTERM, SIG_IGN);
  } else if (name == "fork_grandchild") {
    std::printf("grandchild %d\n", fork_sleeper(value == "session"));
  }
  std::fflush(stdout);
}

void FakeWorker::run_wire_step(const std::string& name, const Json& step) {
  const Json& value = step.begin().value();
  if (name == "ready") {
    ready(value);
  } else if (name == "wait") {
    wait(value.get<std::string>());
  } else if (name == "steps") {
    train(step);
  } else if (name == "checkpoint") {
    checkpoint(step.value("why", "every"));
  } else if (name == "record") {
    send(Record{dump_line(value)});
  } else if (name == "big_records") {
    const std::string padding(step.value("bytes", size_t{0}), 'x');
    for (int i = 0; i < value.get<int>(); ++i)
      send(Record{dump_line({{"kind", "test"}, {"i", i}, {"padding", padding}})});
  } else if (name == "progress") {
    Phase phase = Phase::kIdle;
    phase_from(value.value("phase", "idle"), &phase);
    progress(value.value("step", uint64_t{0}), phase);
  } else if (name == "done") {
    done(value);
  } else if (name == "error") {
    error(value);
  } else if (name == "raw") {
    const auto& bytes = value.get_ref<const std::string&>();
    [[maybe_unused]] const auto written = write(fd_, bytes.data(), bytes.size());
  } else if (name == "close_socket") {
    close(fd_);
    fd_ = -1;
  } else if (name == "on_stop") {
    on_stop_ = value;
  }
}

void FakeWorker::hello(const Json& overrides) {
  send(WorkerHello{overrides.value("version", std::string(program_version())), getpid()});
}

void FakeWorker::ready(const Json& overrides) {
  Json body = {{"step", 0},
               {"resumed_from", ""},
               {"rejected", Json::array()},
               {"complete", false},
               {"total_steps", 3},
               {"steps_per_epoch", 3},
               {"samples", 96},
               {"parameters", 10},
               {"notices", Json::array()},
               {"fingerprint", Json::object()}};
  body.update(overrides);
  step_ = body["step"].get<int64_t>();
  progress(0, Phase::kSetUp);
  send(Ready{body});
}

void FakeWorker::done(const Json& overrides) {
  Json body = {{"outcome", "complete"},
               {"reason", to_string(stop_)},
               {"step", step_},
               {"saved_step", saved_step_},
               {"final", {{"loss", 0.5}}}};
  body.update(overrides);
  progress(static_cast<uint64_t>(step_), Phase::kIdle);
  send(Done{body});
}

void FakeWorker::error(const Json& what) {
  const ErrorKind kind = error_kind(what.value("kind", "internal"));
  send(WorkerError{{kind, what.value("message", "scripted error"), what.value("where", ""), what.value("hint", ""),
                    what.value("culprit", -1)}});
  std::exit(static_cast<int>(exit_code(kind)));
}

void FakeWorker::train(const Json& step) {
  for (int64_t i = step["steps"].get<int64_t>(); i > 0; --i) {
    ++step_;
    progress(static_cast<uint64_t>(step_), Phase::kForward);
    sleep(step.value("every_ms", 1));
    page_.collectives.fetch_add(1, std::memory_order_relaxed);
    const Json record = {{"kind", "step"},      {"step", step_},   {"updates", step_}, {"epoch", step_ / 3.0},
                         {"loss", 1.0 / step_}, {"lr", 0.1},       {"grad_norm", 1.0}, {"samples_per_s", 1000.0},
                         {"data_wait_s", 0.0},  {"step_s", 0.001}, {"scale", 0.0},     {"skipped", 0}};
    if (assign_.rank == 0) send(Record{dump_line(record)});
  }
}

void FakeWorker::checkpoint(const std::string& why) {
  saved_step_ = step_;
  if (assign_.rank != 0) return;
  progress(static_cast<uint64_t>(step_), Phase::kWriting);
  send(Sync{++syncs_});
  while (synced_ < syncs_) pump(-1);
  progress(static_cast<uint64_t>(step_), Phase::kCommit);
  char name[32];
  std::snprintf(name, sizeof name, "step-%08lld", static_cast<long long>(step_));
  send(Record{dump_line({{"kind", "checkpoint"},
                         {"step", step_},
                         {"path", "checkpoints/" + std::string(name)},
                         {"bytes", 1000},
                         {"seconds", 0.001},
                         {"why", why}})});
}

void FakeWorker::progress(uint64_t step, Phase phase) {
  page_.step.store(step, std::memory_order_relaxed);
  page_.phase.store(static_cast<uint32_t>(phase), std::memory_order_relaxed);
}

void FakeWorker::send(const Message& message) {
  const std::string frame = encode(message);
  for (size_t sent = 0; sent < frame.size();) {
    const ssize_t length = write(fd_, frame.data() + sent, frame.size() - sent);
    if (length < 0 && errno == EINTR) continue;
    if (length < 0) std::exit(70);
    sent += static_cast<size_t>(length);
  }
}

void FakeWorker::take(const Message& message) {
  if (const auto* assign = std::get_if<Assign>(&message)) {
    assign_ = *assign;
    assigned_ = true;
  } else if (const auto* stop = std::get_if<Stop>(&message)) {
    stop_ = stop->reason;
  } else if (const auto* synced = std::get_if<Synced>(&message)) {
    synced_ = synced->id;
  }
  go_ = go_ || std::holds_alternative<Go>(message);
  release_ = release_ || std::holds_alternative<Release>(message);
}

// Takes what has come within timeout_ms (-1: waits for something, or for a signal).
void FakeWorker::pump(int timeout_ms) {
  pollfd item{fd_, POLLIN, 0};
  if (poll(&item, 1, timeout_ms) <= 0) return;
  char chunk[4096];
  const ssize_t length = read(fd_, chunk, sizeof chunk);
  if (length <= 0) std::exit(70);  // the agent has gone
  decoder_.feed({chunk, static_cast<size_t>(length)});
  while (const auto message = decoder_.next()) take(*message);
}

void FakeWorker::check_stop() {
  if (term_received && stop_ == StopReason::kNone) stop_ = StopReason::kPreempted;
  if (stop_ != StopReason::kNone && !stopping_) throw StopSeen();
}

void FakeWorker::sleep(int ms) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(ms);
  for (auto now = std::chrono::steady_clock::now(); now < end; now = std::chrono::steady_clock::now()) {
    pump(static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(end - now).count()));
    check_stop();
  }
}

void FakeWorker::wait(const std::string& what) {
  while (!(what == "go" && go_) && !(what == "release" && release_)) {
    check_stop();
    pump(20);  // not -1: SIGTERM may come between check_stop() and poll()
  }
}

}  // namespace
}  // namespace gputrain

int main() {
  gputrain::ignore_sigpipe();
  try {
    gputrain::FakeWorker().run();
  } catch (const std::exception& problem) {
    std::fprintf(stderr, "fake_worker: %s\n", problem.what());
    return 70;
  }
  return 0;
}

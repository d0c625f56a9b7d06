#pragma once
// Runs a controller in a process of its own, over real agents (this very program, started with "agent") and fake
// workers that do what FAKE_WORKER_SCRIPT says. Every wait is bounded.
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent_harness.h"
#include "launch/controller.h"
#include "support/temp_dir.h"
#include "util/json.h"

namespace gputrain::testing {

inline RunPlan small_plan(const std::string& output, int hosts, int ranks_per_host) {
  RunPlan plan;
  plan.name = "test";
  plan.output = output;
  plan.launch.world_size = hosts * ranks_per_host;
  for (int host = 0; host < hosts; ++host) plan.launch.hosts.push_back({"local", ranks_per_host, {}, 1});
  plan.launch.grace = std::chrono::seconds(5);
  plan.model.name = "mlp";
  plan.data.train.format = "synthetic";
  plan.train.epochs = 1;
  plan.train.global_batch = 8;
  plan.optimizer.name = "sgd";
  return plan;
}

// Living children, in the order in which they were started.
inline std::vector<pid_t> children_of(pid_t parent) {
  std::vector<pid_t> list;
  std::ifstream in("/proc/" + std::to_string(parent) + "/task/" + std::to_string(parent) + "/children");
  for (pid_t pid; in >> pid;) list.push_back(pid);
  return list;
}

// Notices and kinds of records, one a line in a file: what a console would have seen.
class FileSink : public Sink {
 public:
  explicit FileSink(const std::string& path) : out_(path, std::ios::app) {}
  void record(const std::string& kind, const std::string&) override { out_ << "record " << kind << std::endl; }
  void notice(const std::string& text) override { out_ << "notice " << text << std::endl; }

 private:
  std::ofstream out_;
};

class ControllerTest : public ::testing::Test {
 protected:
  ControllerTest() { set_hosts(1, 2); }
  void TearDown() override {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
  }

  void set_hosts(int hosts, int ranks_per_host) { options_.plan = small_plan(output_, hosts, ranks_per_host); }

  void start(const std::string& script) {
    options_.spec_text =
        "name: test\nmodel: {name: mlp}\noptimizer: {lr: 0.1}\n"
        "data: {train: {format: synthetic, samples: 9, shape: [784], num_classes: 10}}\n"
        "train: {global_batch: 4, epochs: " +
        std::to_string(options_.plan.train.epochs.value_or(1)) + "}\n";
    if (options_.agent_program.empty()) options_.agent_program = "/proc/" + std::to_string(getpid()) + "/exe";
    if (options_.worker_program.empty()) options_.worker_program = std::string(GPUTRAIN_BINARY_DIR) + "/fake_worker";
    options_.control_directory = directory_ / "ctl";
    std::filesystem::remove(directory_ / "outcome");
    pid_ = fork();
    if (pid_ != 0) return;
    alarm(60);
    ::signal(SIGXFSZ, SIG_IGN);  // fill_disk(): a write error, not a death
    if (in_child_) in_child_();
    setenv("FAKE_WORKER_SCRIPT", script.c_str(), 1);
    options_.sinks = {std::make_shared<FileSink>(directory_ / "sink")};
    _exit(run());
  }

  // The exit code, after at most 20 s; -1 when it had to be killed, -signal when it died of one.
  int wait() {
    int status = 0;
    const bool ended = eventually([&] { return waitpid(pid_, &status, WNOHANG) == pid_; }, 20);
    if (!ended) return -1;
    pid_ = -1;
    std::ifstream in(directory_ / "outcome");
    const Json outcome = Json::parse(in, nullptr, false);
    if (outcome.is_object()) {
      result_ = outcome["result"];
      summary_ = outcome["summary"].get<std::string>();
      written_ = outcome["written"].get<bool>();
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  int launch(const std::string& script) {
    start(script);
    return wait();
  }

  // Never to a pid that is not the controller's: kill(-1) is everybody.
  void signal(int number) {
    ASSERT_GT(pid_, 0);
    ASSERT_EQ(kill(pid_, number), 0);
  }

  // From now on the controller cannot make events.jsonl (or any file) longer than it is: all but `room` bytes of the
  // next record fail.
  void fill_disk(int room) {
    const auto size = std::filesystem::file_size(output_ + "/events.jsonl") + static_cast<uintmax_t>(room);
    ASSERT_GT(size, 4096u) << "the lock must still fit";
    const rlimit limit{size, size};
    ASSERT_EQ(prlimit(pid_, RLIMIT_FSIZE, &limit, nullptr), 0);
  }

  std::vector<Json> events(const std::string& kind = "") const {
    std::vector<Json> list;
    std::ifstream in(output_ + "/events.jsonl");
    for (std::string line; std::getline(in, line);) {
      const Json json = Json::parse(line, nullptr, false);
      if (json.is_object() && (kind.empty() || json["kind"] == kind)) list.push_back(json);
    }
    return list;
  }
  std::vector<int64_t> steps() const {
    std::vector<int64_t> list;
    for (const auto& event : events("step")) list.push_back(event["step"].get<int64_t>());
    return list;
  }
  bool wait_for_event(const std::string& kind, size_t count = 1) const {
    return eventually([&] { return events(kind).size() >= count; });
  }
  bool wait_for_step(int64_t step) const {
    return eventually([&] { return !steps().empty() && steps().back() >= step; });
  }
  std::string sink() const { return read_text(directory_ / "sink"); }
  bool exists(const std::string& name) const { return std::filesystem::exists(output_ + "/" + name); }
  Json written_result() const { return Json::parse(read_text(output_ + "/result.json"), nullptr, false); }

  TempDir directory_;
  std::string output_ = directory_ / "runs/test";
  ControllerOptions options_;
  std::function<void()> in_child_;  // called in the controller's process, before it
  pid_t pid_ = -1;
  Json result_;
  std::string summary_;
  bool written_ = false;

 private:
  int run() {
    Json report = {{"result", nullptr}, {"summary", ""}, {"written", false}};
    int code = 99;
    try {
      const Outcome outcome = run_controller(options_);
      report = {{"result", outcome.result}, {"summary", outcome.summary}, {"written", outcome.result_written}};
      code = outcome.exit_code;
    } catch (const Error& error) {
      report["summary"] = error.render();
      code = static_cast<int>(exit_code(error.kind));
    }
    std::ofstream(directory_ / "outcome") << report.dump();
    return code;
  }
};

}  // namespace gputrain::testing

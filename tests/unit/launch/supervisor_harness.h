#pragma once
// An attempt state machine with invented time, and what came out of it: no process, no clock, no file.
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <signal.h>

#include "launch/supervisor.h"

namespace gputrain::testing {

class SupervisorTest : public ::testing::Test {
 protected:
  SupervisorTest() { make(1, 2); }

  void make(int hosts, int ranks_per_host) {
    LaunchPlan launch;
    for (int host = 0; host < hosts; ++host)
      launch.hosts.push_back({"host-" + std::to_string(host), ranks_per_host, {}, 1});
    SupervisorConfig config;
    config.plan = plan_attempt(launch, 3);
    config.grace = std::chrono::milliseconds(30000);
    config.start.run_id = "run";
    now_ = MonotonicTime(std::chrono::hours(1));
    supervisor_ = std::make_unique<Supervisor>(std::move(config), now_);
    hosts_ = hosts;
    ranks_ = hosts * ranks_per_host;
    sent_.clear();
    result_.reset();
    prepared_ = 0;
    take();
  }

  // Collects what came out: "Kill>0" is Kill to agent 0.
  void take() {
    for (const auto& action : supervisor_->take_actions()) {
      if (const auto* send = std::get_if<SendAction>(&action)) {
        sent_.push_back(std::string(message_name(send->message)) + ">" + std::to_string(send->agent));
        last_ = send->message;
      } else if (const auto* finish = std::get_if<FinishAction>(&action)) {
        ASSERT_FALSE(result_) << "finished twice";
        result_ = finish->result;
      } else {
        ++prepared_;
      }
    }
  }
  std::vector<std::string> sent() { return std::exchange(sent_, {}); }

  int agent_of(int rank) { return supervisor_->plan().agent_of(rank); }
  void from_rank(int rank, const Message& message) {
    supervisor_->on_message(agent_of(rank), message, now_);
    take();
  }
  void started(int rank) { from_rank(rank, RankStarted{3, rank, 100 + rank}); }
  void ready(int rank, Json body = Json::object()) { from_rank(rank, RankReady{3, rank, std::move(body)}); }
  void error(int rank, ErrorKind kind) { from_rank(rank, RankError{3, rank, {kind, "m", "", ""}, {5, "forward", 0}}); }
  void done(int rank, Json body) { from_rank(rank, RankDone{3, rank, std::move(body)}); }
  void exited(int rank, int code, int signal = 0, bool by_us = false) {
    RankExited message;
    message.attempt = 3;
    message.rank = rank;
    message.pid = 100 + rank;
    message.code = code;
    message.signal = signal;
    message.killed_by_us = by_us;
    from_rank(rank, message);
  }
  void killed(int rank) { exited(rank, 0, SIGKILL, true); }
  void pass(std::chrono::milliseconds time) {
    now_ += time;
    supervisor_->on_time(now_);
    take();
  }
  void stop(StopReason reason) {
    supervisor_->stop(reason, now_);
    take();
  }
  void listening() {
    supervisor_->on_message(agent_of(0), Listening{3, "127.0.0.1", 4000, ""}, now_);
    take();
  }
  void run_until_ready(Json body = {{"step", 10}}) {
    listening();
    for (int rank = 0; rank < ranks_; ++rank) started(rank);
    for (int rank = 0; rank < ranks_; ++rank) ready(rank, rank == 0 ? body : Json::object());
  }
  void run_until_going() {
    run_until_ready();
    supervisor_->go(now_);
    take();
    sent_.clear();
  }
  static Json complete(int64_t step = 30) {
    return {{"outcome", "complete"}, {"step", step}, {"saved_step", step}, {"final", {{"accuracy", 0.5}}}};
  }
  static Json stopped(int64_t step, int64_t saved, const char* reason = "preempted") {
    return {{"outcome", "stopped"}, {"reason", reason}, {"step", step}, {"saved_step", saved}};
  }

  std::unique_ptr<Supervisor> supervisor_;
  MonotonicTime now_;
  int hosts_ = 1, ranks_ = 2, prepared_ = 0;
  std::vector<std::string> sent_;
  Message last_;
  std::optional<AttemptResult> result_;
};

}  // namespace gputrain::testing

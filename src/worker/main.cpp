// gputrain-worker: one training process. Started by an agent, which it knows only through the descriptors of
// wire/env.h.
#include <cstdio>
#include <cstdlib>

#include <c10/util/Exception.h>
#include <unistd.h>

#include "gputrain_version.h"
#include "sys/process.h"
#include "sys/shared_page.h"
#include "train/memory.h"
#include "train/settings_check.h"
#include "util/blamed_error.h"
#include "util/log.h"
#include "wire/env.h"
#include "worker/channel.h"
#include "worker/evaluation.h"
#include "worker/training.h"

namespace gputrain {
namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// _exit: nobody needs the destructors of a process that ends, and they cost 0.1-0.2 s.
[[noreturn]] void leave(int code) {
  std::fflush(nullptr);
  ::_exit(code);
}

std::optional<Hold> hold_for(int rank) {
  const std::string place = environment(env::kHold), only = environment(env::kHoldRank);
  if (place.empty() || (!only.empty() && only != std::to_string(rank))) return std::nullopt;
  Hold hold = parse_hold(place);
  hold.once_path = environment(env::kHoldOnce);
  return hold;
}

std::vector<std::string> numeric_variables() {
  std::vector<std::string> lines;
  for (const char* name : kNumericVariables) lines.push_back(variable_line(name, std::getenv(name)));
  return lines;
}

template <typename Work>
void serve(Work& work, Channel& channel) {
  channel.write(Ready{work.ready()});
  channel.wait_go();
  channel.write(Done{work.run()});
  channel.wait_release();
}

void work(Channel& channel, StopSource& stop) {
  channel.write(WorkerHello{GPUTRAIN_VERSION, ::getpid()});
  const Assign assign = channel.wait_assign();
  set_up_log("rank " + std::to_string(assign.rank));
  const SharedPage page = SharedPage::map(UniqueFd(env::kProgressPageFd), sizeof(ProgressPage));
  PhaseMarker marker(static_cast<ProgressPage*>(page.data()), stop, hold_for(assign.rank));
  marker.enter(Phase::kSetUp, 0);
  Foundation base =
      lay_foundation(assign, {executable_directory(), !environment(env::kGroupOfOne).empty(), numeric_variables()});
  if (assign.resume.mode == "eval") {
    Evaluation evaluation(std::move(base), {stop, marker});
    serve(evaluation, channel);
  } else {
    Training training(std::move(base), {stop, marker, channel},
                      {environment(env::kTrace), !environment(env::kTraceGradients).empty()});
    serve(training, channel);
  }
}

[[noreturn]] void fail(Channel& channel, const Error& error) {
  log_line(LogLevel::kError, error.render());
  const auto* blamed = dynamic_cast<const BlamedError*>(&error);
  channel.write(WorkerError{{error.kind, error.message, error.where, error.hint, blamed ? blamed->culprit : -1}});
  leave(static_cast<int>(exit_code(error.kind)));
}

// What no layer below gave a kind.
Error typed(const std::exception& error) {
  if (is_out_of_memory(error)) {
    return out_of_memory(error, "the model, its optimizer or its data", "",
                         "use a smaller model or train.micro_batch, or a machine with more memory");
  }
  const auto* torch = dynamic_cast<const c10::Error*>(&error);
  if (torch == nullptr) return {ErrorKind::kInternal, error.what()};
  log_line(LogLevel::kError, error.what());  // the stack is for the log, not for the screen
  return {ErrorKind::kInternal, std::string("LibTorch: ") + torch->what_without_backtrace()};
}

[[noreturn]] void run() {
  StopSource stop;
  Channel channel({env::kWorkerSocketFd, take_signals(), stop, [] { leave(static_cast<int>(ExitCode::kFailed)); }});
  try {
    work(channel, stop);
  } catch (const Error& error) {
    fail(channel, error);
  } catch (const std::exception& error) {
    fail(channel, typed(error));
  }
  leave(static_cast<int>(ExitCode::kDone));
}

}  // namespace
}  // namespace gputrain

int main() {
  gputrain::ignore_sigpipe();
  gputrain::run();
}

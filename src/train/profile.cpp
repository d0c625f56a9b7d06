#include "train/profile.h"

#include <cstdio>
#include <exception>
#include <filesystem>
#include <set>
#include <utility>

#include <ATen/record_function.h>
#include <torch/csrc/autograd/profiler_kineto.h>

#include "util/error.h"

namespace gputrain {
namespace {

namespace profiler = torch::autograd::profiler;
using torch::profiler::impl::ActivityType;

std::unique_ptr<at::RecordFunction> range(const std::string& name) {
  auto range = std::make_unique<at::RecordFunction>(at::RecordScope::USER_SCOPE);
  if (range->isActive()) range->before(std::string_view(name));
  return range;
}

bool in_step(Phase phase) {
  return phase == Phase::kForward || phase == Phase::kBackward || phase == Phase::kOptimizer;
}

// A trace is one JSON object.
bool is_whole(FileSystem& fs, const std::string& path) {
  constexpr int64_t kTail = 2;  // "}\n"
  if (!fs.exists(path) || fs.size(path) < kTail) return false;
  std::string tail(kTail, ' ');
  fs.read_at(path, fs.size(path) - kTail, tail);
  return tail.find('}') != std::string::npos;
}

}  // namespace

std::string profile_path(const std::string& output, int attempt, int rank) {
  char name[64];
  std::snprintf(name, sizeof name, "/profile/attempt-%04d/rank-%05d.json", attempt, rank);
  return output + name;
}

Profile::Profile(FileSystem& fs, ProfileOptions options)
    : fs_(fs), options_(std::move(options)), exceptions_(std::uncaught_exceptions()) {}

// Even taking the trace apart takes seconds, for which an error on its way to the peers would wait.
Profile::~Profile() {
  if (state_ == State::kTracing && std::uncaught_exceptions() == exceptions_) stop();
}

void Profile::enter(Phase phase, int64_t step) {
  if (phase == Phase::kAllReduce) return;  // within backward, and on a GPU on its thread
  if (state_ == State::kWaiting && starts(phase, step)) start();
  if (state_ != State::kTracing) return;
  phase_range_.reset();
  if (!in_step(phase)) step_range_.reset();
  if (ends(phase, step)) return stop();
  if (in_step(phase) && !step_range_) step_range_ = range("ProfilerStep#" + std::to_string(step));
  phase_range_ = range(std::string(to_string(phase)));
}

bool Profile::starts(Phase phase, int64_t step) const {
  return phase == Phase::kForward && step >= options_.first && step <= options_.last;
}

bool Profile::ends(Phase phase, int64_t step) const {
  if (phase == Phase::kIdle) return true;
  return phase == Phase::kDataWait ? step > options_.last : !in_step(phase) && step >= options_.last;
}

void Profile::start() {
  const profiler::ProfilerConfig config(profiler::ProfilerState::KINETO);
  std::set<ActivityType> activities{ActivityType::CPU};
  if (options_.gpu) activities.insert(ActivityType::CUDA);
  profiler::prepareProfiler(config, activities);
  profiler::enableProfiler(config, activities);
  state_ = State::kTracing;
}

void Profile::stop() {
  state_ = State::kWritten;
  phase_range_.reset();
  step_range_.reset();
  try {
    write();
  } catch (const std::exception& error) {
    options_.warn("the profile was not written: " + std::string(error.what()));
  }
}

// The profiler opens the file itself, and says nothing when it cannot.
void Profile::write() {
  const auto result = profiler::disableProfiler();
  const std::string unfinished = options_.path + ".tmp";  // the profiler itself writes UNFINISHED.tmp first
  fs_.make_directories(std::filesystem::path(options_.path).parent_path().string());
  result->save(unfinished);
  if (!is_whole(fs_, unfinished)) {
    for (const std::string& left : {unfinished, unfinished + ".tmp"})
      fs_.remove_all(left);  // room for what matters more
    throw Error(ErrorKind::kOutput, "cannot write it", options_.path);
  }
  fs_.rename(unfinished, options_.path);
}

}  // namespace gputrain

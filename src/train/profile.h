#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "sys/fs.h"
#include "wire/progress_page.h"

namespace at {
struct RecordFunction;
}

namespace gputrain {

struct ProfileOptions {
  int64_t first = 0, last = 0;                        // steps, 1-based, both traced
  std::string path;                                   // of the trace; its directory is made
  bool gpu = false;                                   // kernels too
  std::function<void(const std::string& text)> warn;  // a trace that cannot be written costs nobody the run
};

// Traces some steps of this rank with LibTorch's profiler into Chrome's trace format, which Perfetto reads: every ATen
// operation and collective, and around them a range "ProfilerStep#N" a step (the name that PyTorch's tools look for)
// with the phases in it. Starts at the first forward pass of a step in the range, so that nothing is written before one
// is run; the file is written when the last is over or the run ends before, whole or not at all.
//
// An exception that destroys this leaves the trace behind, and the profiler on: the process is about to end, and its
// peers wait to hear why.
//
// Fed by PhaseMarker on the training thread.
class Profile {
 public:
  Profile(FileSystem& fs, ProfileOptions options);
  ~Profile();
  Profile(const Profile&) = delete;
  Profile& operator=(const Profile&) = delete;

  void enter(Phase phase, int64_t step);

 private:
  enum class State { kWaiting, kTracing, kWritten };
  bool starts(Phase phase, int64_t step) const;
  bool ends(Phase phase, int64_t step) const;
  void start();
  void stop();
  void write();

  FileSystem& fs_;
  ProfileOptions options_;
  int exceptions_;  // on their way when this was made
  State state_ = State::kWaiting;
  std::unique_ptr<at::RecordFunction> step_range_, phase_range_;
};

// OUTPUT/profile/attempt-0001/rank-00000.json
std::string profile_path(const std::string& output, int attempt, int rank);

}  // namespace gputrain

#pragma once
#include <string>

namespace gputrain {

// A run directory for runs that leave nothing (--smoke, eval): in the temporary directory, removed with everything in
// it.
class ScratchDirectory {
 public:
  ScratchDirectory();  // Error(kOutput)
  ~ScratchDirectory();
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;
  std::string output() const { return path_ + "/run"; }

 private:
  std::string path_;
};

}  // namespace gputrain

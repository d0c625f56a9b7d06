#include "cli/scratch.h"

#include <cerrno>
#include <filesystem>

#include <stdlib.h>

#include "util/error.h"

namespace gputrain {

ScratchDirectory::ScratchDirectory() {
  std::error_code problem;
  std::string pattern = (std::filesystem::temp_directory_path(problem) / "gputrain-XXXXXX").string();
  if (problem || !mkdtemp(pattern.data())) {
    throw Error(ErrorKind::kOutput,
                "cannot create a temporary directory: " + errno_text(problem ? problem.value() : errno), pattern,
                "set TMPDIR to a writable directory");
  }
  path_ = pattern;
}

ScratchDirectory::~ScratchDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace gputrain

#include "cli/scratch.h"

#include <cerrno>
#include <filesystem>

#include <stdlib.h>

#include "util/error.h"

namespace gputrain {

ScratchDirectory::ScratchDirectory() {
  std::string pattern = (std::filesystem::temp_directory_path() / "gputrain-XXXXXX").string();
  if (!mkdtemp(pattern.data())) {
    throw Error(ErrorKind::kOutput, "cannot create a temporary directory: " + errno_text(errno), pattern,
                "set TMPDIR to a writable directory");
  }
  path_ = pattern;
}

ScratchDirectory::~ScratchDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace gputrain

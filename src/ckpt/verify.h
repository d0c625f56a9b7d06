#pragma once
// Looking at one checkpoint directory. What is wrong with its content is an Error of kind kCheckpoint whose message is
// the reason; errors of the file system itself pass through with their own kind.
#include <optional>
#include <string>

#include "ckpt/checkpoint.h"
#include "ckpt/manifest.h"
#include "ckpt/state.h"
#include "util/error.h"

namespace gputrain {

struct CheckpointHead {
  std::string path;
  Manifest manifest;
  StateFile state;
  int64_t bytes = 0;  // all files, the manifest too
};

// Reads the manifest and state.json (hash checked) and compares the sizes of the rest: cheap whatever the model's size.
// `expected_step`: what the directory's name says.
CheckpointHead read_checkpoint_head(FileSystem& fs, const std::string& path, std::optional<int64_t> expected_step);

// The head, and every file rehashed and its structure compared with the manifest.
CheckpointHead verify_checkpoint(FileSystem& fs, const std::string& path, std::optional<int64_t> expected_step);

// The same checks while the tensors are loaded: each file is read once.
LoadedCheckpoint load_verified(FileSystem& fs, const std::string& path, std::optional<int64_t> expected_step);

// Runs `action`; an Error of another kind becomes one of kind kCheckpoint.
template <typename Action>
auto as_checkpoint_error(Action action) {
  try {
    return action();
  } catch (const Error& error) {
    if (error.kind == ErrorKind::kCheckpoint) throw;
    throw Error(ErrorKind::kCheckpoint, error.message, error.where, error.hint);
  }
}

}  // namespace gputrain

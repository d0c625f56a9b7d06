#pragma once
// The formats behind open_source(). Each checks its arguments (Error(kSpec)) and its files (Error(kData)) when it is
// opened.
#include <memory>
#include <string>

#include "data/loader.h"

namespace gputrain {

struct SourceRequest {
  const Json& args;
  std::string role;  // "data.train"
  SourceOptions options;
};

// Images and labels in MNIST's format, plain or gzip; held unpacked in memory. Images are uint8 [1, height, width].
std::unique_ptr<Source> open_idx(const SourceRequest& request);

// Headerless arrays, one sample after another, little-endian: `inputs` and `targets`, each {path, shape, dtype,
// offset}. Memory-mapped up to 1 GiB, else read with pread. Targets by task: an integer label; masks [height, width] or
// [depth, height, width]; numbers of any shape; for language_model both are tokens [length].
std::unique_ptr<Source> open_raw(const SourceRequest& request);

// A file of unsigned little-endian tokens: {path, dtype, context, offset}. Sample i is tokens [i * context, (i + 1) *
// context), its target the same one token later, both int64 [context]; read as raw arrays are.
std::unique_ptr<Source> open_tokens(const SourceRequest& request);

// Pseudo-random samples and targets, a pure function of the sample id. `targets`: class, mask and values come with
// float32 inputs in [-1, 1); tokens with the tokens before them.
std::unique_ptr<Source> open_synthetic(const SourceRequest& request);

// Error(kSpec) where the request's task is another than the one that `what` (a format) is for.
void need_task(const SourceRequest& request, const std::string& what, Task task);

}  // namespace gputrain

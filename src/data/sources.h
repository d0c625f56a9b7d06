#pragma once
// The formats behind open_source(). Each checks its arguments (Error(kSpec)) and its files (Error(kData)) when it is
// opened.
#include <memory>
#include <string>

#include "data/loader.h"

namespace gputrain {

struct SourceRequest {
  const Json& args;
  std::string role;          // "data.train"
  int64_t num_classes = -1;  // -1: not known
};

// Images and labels in MNIST's format, plain or gzip; held unpacked in memory. Images are uint8 [1, height, width].
std::unique_ptr<Source> open_idx(const SourceRequest& request);

// Headerless arrays, one sample after another, little-endian: `inputs` and `targets`, each {path, shape, dtype,
// offset}. Memory-mapped up to 1 GiB, else read with pread.
std::unique_ptr<Source> open_raw(const SourceRequest& request);

// Pseudo-random float32 samples in [-1, 1) and labels, a pure function of the sample id.
std::unique_ptr<Source> open_synthetic(const SourceRequest& request);

// The error for a label outside [0, num_classes): "label 56 of sample 12 is not in [0, 10)".
std::string label_problem(int64_t label, int64_t sample, int64_t num_classes);

}  // namespace gputrain

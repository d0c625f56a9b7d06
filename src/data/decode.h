#pragma once
// Fills batch buffers from a source, and keeps those buffers in use.
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "data/loader.h"
#include "data/pipeline.h"
#include "data/target_transform.h"
#include "spec/shares.h"

namespace gputrain {

// Memory for the largest micro-batch; smaller ones use its front.
struct Buffer {
  at::Tensor inputs;
  at::Tensor targets;
  // Does a batch that was handed out still hold this memory?
  bool in_use() const;
};

// Decodes micro-batches: what is the same for all of them. Thread-safe; each thread brings its own scratch memory.
class Decoder {
 public:
  Decoder(const Source& source, std::unique_ptr<Pipeline> pipeline, const LoaderOptions& options);

  // One sample and its target as the source gives them.
  struct Scratch {
    std::vector<char> sample, target;
  };
  // Fills the buffer's first rows with the samples at `positions` of the epoch's order; their ids. Touches raw memory
  // only: no ATen operation, so no intra-op threads and no current device.
  std::vector<int64_t> decode(int64_t epoch, Range positions, const Buffer& buffer, Scratch& scratch) const;

  Buffer make_buffer(int64_t rows) const;
  // The front of a buffer as a batch. New tensors over the same memory: what the consumer does to them (requires_grad_,
  // resize_) leaves the buffer as it is.
  static Batch make_batch(const Buffer& buffer, std::vector<int64_t> ids);

 private:
  const Source& source_;
  std::unique_ptr<Pipeline> pipeline_;
  TargetTransform targets_;
  LoaderOptions options_;
  size_t sample_bytes_, row_bytes_;  // of the inputs
  size_t target_bytes_, target_row_bytes_;
};

}  // namespace gputrain

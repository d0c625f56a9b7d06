#pragma once
// What each rank did, for tests (GPUTRAIN_INTERNAL_TRACE=DIR): one JSON line a step in DIR/attempt-A-rank-R.jsonl.
#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "data/loader.h"
#include "train/state.h"

namespace gputrain {

// Over the raw bytes of all tensors, in order: equal bits, equal hash. 16 hex digits.
std::string hash_of(const std::vector<at::Tensor>& tensors);

class Trace {
 public:
  // Creates DIR. Error(kOutput) when that fails.
  Trace(const std::string& directory, int attempt, int rank);

  // {step, ids, all_reduces, loss, parameters_hash}, flushed: the line is in the file when this returns, also after
  // kill -9.
  void step(int64_t step, const std::vector<Batch>& batches, int64_t all_reduces, double loss,
            const std::vector<at::Tensor>& parameters);
  // Averaged gradients by parameter name, to DIR/attempt-A-rank-R.gradients.safetensors (tests compare them with one
  // process).
  void gradients(const TrainState& state);

 private:
  std::string stem_;
};

}  // namespace gputrain

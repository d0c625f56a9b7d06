#pragma once
// What each rank did, for tests (GPUTRAIN_INTERNAL_TRACE=DIR): one JSON line a step in DIR/attempt-A-rank-R.jsonl.
#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "train/state.h"

namespace gputrain {

// Over the raw bytes of all tensors, in order: equal bits, equal hash. 16 hex digits.
std::string hash_of(const std::vector<at::Tensor>& tensors);

struct TracedStep {
  int64_t step = 0;
  std::vector<int64_t> ids;  // of this rank's samples, in order
  int64_t all_reduces = 0;   // in this step
  double loss = 0;
};

class Trace {
 public:
  // Creates DIR. Error(kOutput) when that fails.
  Trace(const std::string& directory, int attempt, int rank);

  // {step, ids, all_reduces, loss, parameters_hash}: the line is in the file when this returns, also after kill -9.
  void step(const TracedStep& step, const std::vector<at::Tensor>& parameters);
  // Averaged gradients by parameter name, to DIR/attempt-A-rank-R.gradients-<step>.safetensors.
  void gradients(const TrainState& state, int64_t step);

 private:
  std::string stem_;
};

}  // namespace gputrain

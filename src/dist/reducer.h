#pragma once
// Gradient averaging over the ranks. Back ends: "c10d" (c10d::Reducer: buckets reduced during backward, gradients as
// bucket views) and "flat" (one all-reduce after backward over all gradients: the reference in tests).
//
// Use, each step:  zero_gradients(); for each micro-batch i: { begin_micro_batch(last); forward; backward; }  finish();
// After finish() every gradient is (sum over ranks) / world_size, the same bits on every rank.
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "dist/comm.h"
#include "util/json.h"

namespace gputrain {

class GradReducer {
 public:
  virtual ~GradReducer() = default;
  // In place where gradients are bucket views; in a world of one they are undefined until backward makes them (finish()
  // defines the rest). Before the first micro-batch of every step.
  virtual void zero_gradients() = 0;
  // Before the forward pass of a micro-batch. `last` is this rank's last of the step: its backward reduces; the others
  // accumulate locally. A rank without samples runs one micro-batch whose loss is 0 x sum of parameters, with last =
  // true.
  virtual void begin_micro_batch(bool last) = 0;
  // After the last backward: waits until all gradients are reduced.
  virtual void finish() = 0;
  // Bucket layout in force: state that resume must restore, since Gloo's sums depend on it from three ranks on.
  // [[parameter index, ...], ...] in the order of reduction; [] in a world of one.
  virtual Json layout() const = 0;
  // All-reduces issued since construction (= buckets x steps, whatever the accumulation).
  virtual int64_t all_reduce_count() const = 0;
};

struct ReducerOptions {
  std::string kind = "c10d";  // c10d | flat
  int64_t first_bucket_bytes = 1 << 20;
  int64_t bucket_bytes = 25 << 20;
  bool deterministic = false;  // never rebuild buckets; otherwise once, in the first finish(), as DDP does
  std::optional<Json> layout;  // a saved layout: used as it is and never rebuilt; nullopt or [] = computed from the
                               // model. Error(kCheckpoint) when it does not fit. `flat` has one bucket a dtype.
  std::function<void()> on_all_reduce;  // called (on the backward thread) as each all-reduce is issued; may be empty
};

// `parameters`: trainable, de-duplicated, in model order, equal on all ranks. Defines zero gradients first (with
// undefined ones the first step would divide differently at W = 3). A rebuild replaces the gradient tensors: read
// grad() anew each step. Divides each rank's gradient by W, then sums (c10d's order). Backward throws the libraries'
// own exceptions when a peer is lost: run it in run_collective (dist/collective_error.h). c10d's
// finish() throws Error(kSpec) naming parameters that got no gradient.
std::unique_ptr<GradReducer> make_reducer(std::shared_ptr<Comm> comm, std::vector<at::Tensor> parameters,
                                          const std::vector<std::string>& names, const ReducerOptions& options);

// Copies rank 0's parameters and buffers to every rank, after checking that names, shapes and dtypes agree
// (Error(kInternal) that names the first difference otherwise).
void broadcast_model(Comm& comm, const std::vector<std::pair<std::string, at::Tensor>>& tensors);

}  // namespace gputrain

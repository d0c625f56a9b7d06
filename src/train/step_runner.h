#pragma once
// One optimizer step on this rank: forward and backward over its micro-batches, reduction, vote, clip, update.
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "data/loader.h"
#include "dist/reducer.h"
#include "spec/plan.h"
#include "train/objective.h"
#include "train/phase.h"
#include "train/schedule.h"
#include "train/state.h"
#include "train/vote.h"

namespace gputrain {

struct StepResult {
  double loss = 0;          // mean over the global batch, all ranks
  double grad_norm = 0;     // after averaging, before clipping; not finite in a skipped step
  double lr = 0;            // of this step's update
  bool skipped = false;     // the loss scaler refused the update
  int64_t all_reduces = 0;  // of gradients, in this step
  Agreement next;           // what the step's vote says of the step to come
};

struct StepOptions {
  uint64_t seed = 1;
  Precision precision = Precision::kFp32;
  double clip_grad_norm = 0;   // 0 = no clipping
  double clip_grad_value = 0;  // 0 = no clipping; before the norm's
  MixPlan mix;
  bool channels_last = false;
  at::Device device = at::kCPU;
};

// Hooks for traces and overlap; empty ones cost nothing.
struct StepHooks {
  // After the reduction, before clipping: gradients are averages over all ranks.
  std::function<void(int64_t step)> on_gradients;
  // This rank's ballot for the step after `step`, for the vote that travels with the loss of `step`. Empty = not ready.
  std::function<Ballot(int64_t step)> next_ballot;
};

class StepRunner {
 public:
  struct Parts {
    TrainState& state;
    const Objective& objective;
    GradReducer& reducer;
    Vote& vote;
    const Schedule& schedule;
    PhaseMarker& marker;
  };
  StepRunner(const Parts& parts, const StepOptions& options, StepHooks hooks);

  // Runs step state.counters.step + 1 on this rank's micro-batches (none = no samples). `count` is C, of samples or
  // tokens over all ranks: each summed loss counts W / C, which the reducer's 1 / W turns into the full batch's mean (a
  // step in which nothing counts has a loss and gradient of 0). Does not touch the counters. Throws Error(kNonFinite),
  // the same on every rank (a BlamedError for a loss) and before the update, when a loss or gradient is not finite and
  // there is no scaler, or none that can back off any further; and Error(kOutOfMemory) that names the micro-batch.
  StepResult run(const std::vector<Batch>& batches, int64_t count);

  // The reducer's layout in force: part of a checkpoint (it may change in the first step).
  Json bucket_layout() const { return parts_.reducer.layout(); }
  StepHooks& hooks() { return hooks_; }
  const Objective& objective() const { return parts_.objective; }

 private:
  Agreement accumulate(const std::vector<Batch>& batches, int64_t count);
  std::function<Agreement()> run_micro_batch(const Batch& batch, bool last, double weight);
  const at::Tensor& filled(double weight, const at::Tensor& loss);
  std::function<Agreement()> run_empty();
  at::Tensor micro_batch_loss(const Batch& batch);
  std::function<Agreement()> start_vote();
  Vote::RankText blame(const std::vector<Batch>& batches);
  [[noreturn]] void fail_loss(const std::vector<Batch>& batches);
  [[noreturn]] void fail_scale(const std::vector<Batch>& batches, bool loss_too);
  StepResult update(double loss);
  double clip();
  std::string place() const;

  Parts parts_;
  StepOptions options_;
  StepHooks hooks_;
  std::vector<at::Tensor> parameters_;
  std::vector<at::Tensor> gradients_;
  at::Tensor loss_sum_;  // of this rank's samples so far, on the device
  double my_loss_ = 0;   // the same on the host, once it was read for the vote
  at::Tensor weight_;    // what backward started from last, a scalar of weight_value_
  double weight_value_ = 0;
};

}  // namespace gputrain

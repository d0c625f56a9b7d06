#include "train/step_runner.h"

#include <cmath>
#include <utility>

#include "dist/collective_error.h"
#include "train/memory.h"
#include "train/mixing.h"
#include "train/precision.h"
#include "util/blamed_error.h"
#include "util/random.h"
#include "util/text.h"

namespace gputrain {
namespace {

// Enough of the ids to find the sample, whatever the batch's size.
std::string describe_ids(const std::vector<Batch>& batches) {
  constexpr size_t kShown = 16;
  std::string text;
  size_t count = 0;
  for (const Batch& batch : batches) {
    for (const int64_t id : batch.ids) {
      if (++count <= kShown) text += (text.empty() ? "" : ", ") + std::to_string(id);
    }
  }
  return count > kShown ? text + ", ... (" + std::to_string(count) + " samples)" : text;
}

std::optional<int64_t> first_non_finite(const at::Tensor& values, const std::vector<int64_t>& ids) {
  if (!values.is_floating_point() || values.numel() == 0) return std::nullopt;
  const at::Tensor rows = values.reshape({values.size(0), -1}).isfinite().all(1).logical_not().nonzero();
  if (rows.size(0) == 0) return std::nullopt;
  return ids.at(static_cast<size_t>(rows[0][0].item<int64_t>()));
}

// The usual reason for a loss that is not finite, where the data show it.
std::string non_finite_data(const std::vector<Batch>& batches) {
  for (const Batch& batch : batches) {
    if (const auto id = first_non_finite(batch.inputs, batch.ids))
      return "; the input of sample " + std::to_string(*id) + " is not finite";
    if (const auto id = first_non_finite(batch.targets, batch.ids))
      return "; the target of sample " + std::to_string(*id) + " is not finite";
  }
  return "";
}

}  // namespace

StepRunner::StepRunner(const Parts& parts, const StepOptions& options, StepHooks hooks)
    : parts_(parts), options_(options), hooks_(std::move(hooks)), parameters_(parts.state.parameters()) {}

StepResult StepRunner::run(const std::vector<Batch>& batches, int64_t count) {
  const int64_t step = parts_.state.counters.step + 1;
  const auto rank = static_cast<uint64_t>(parts_.vote.rank());
  at::manual_seed(derive_seed(RandomDomain::kDropout, options_.seed, rank, static_cast<uint64_t>(step)));
  const int64_t all_reduces = parts_.reducer.all_reduce_count();
  parts_.reducer.zero_gradients();
  const Agreement agreement = accumulate(batches, count);
  if (hooks_.on_gradients) hooks_.on_gradients(step);
  if (agreement.non_finite_ranks > 0 && !parts_.state.scaler.enabled()) fail_loss(batches);
  parts_.marker.enter(Phase::kOptimizer, step);
  StepResult result = update(count > 0 ? agreement.loss_sum / static_cast<double>(count) : 0);
  if (result.skipped && parts_.state.scaler.exhausted()) fail_scale(batches, agreement.non_finite_ranks > 0);
  parts_.state.scaler.update(result.skipped);
  result.next = agreement;
  result.all_reduces = parts_.reducer.all_reduce_count() - all_reduces;
  return result;
}

Agreement StepRunner::accumulate(const std::vector<Batch>& batches, int64_t count) {
  const double weight = count > 0 ? static_cast<double>(parts_.vote.world_size()) / static_cast<double>(count) : 0;
  loss_sum_ = at::Tensor();
  my_loss_ = 0;
  std::function<Agreement()> vote;
  if (batches.empty()) vote = run_empty();
  for (size_t i = 0; i < batches.size(); ++i) {
    const bool last = i + 1 == batches.size();
    parts_.reducer.begin_micro_batch(last);
    vote = with_memory_for(batches[i].inputs.size(0), parts_.vote.rank(), place(),
                           [&] { return run_micro_batch(batches[i], last, weight); });
  }
  parts_.reducer.finish();
  return vote ? vote() : start_vote()();
}

// The vote travels during the last backward where the loss costs no wait; on a GPU reading it before would leave
// the GPU idle.
std::function<Agreement()> StepRunner::run_micro_batch(const Batch& batch, bool last, double weight) {
  const int64_t step = parts_.state.counters.step + 1;
  parts_.marker.enter(Phase::kForward, step);
  const at::Tensor loss = micro_batch_loss(batch);
  const at::Tensor value = loss.detach();
  // The host widens the loss of a single micro-batch when it reads it: one operation less.
  loss_sum_ = loss_sum_.defined() ? loss_sum_.to(at::kDouble) + value.to(at::kDouble) : value;
  std::function<Agreement()> vote;
  if (last && options_.device.is_cpu()) vote = start_vote();
  parts_.marker.enter(Phase::kBackward, step);
  // The factor of the loss is the gradient that backward starts from: the same product, without two operations more.
  const at::Tensor start = parts_.state.scaler.scale(filled(weight, loss));
  run_collective("backward", [&] { loss.backward(start); });
  return vote;
}

// A scalar like `loss`. Kept, for it is nearly always the one of the last step; autograd does not write to what
// somebody else holds.
const at::Tensor& StepRunner::filled(double weight, const at::Tensor& loss) {
  if (!weight_.defined() || weight_value_ != weight || weight_.scalar_type() != loss.scalar_type()) {
    weight_ = at::full({}, weight, loss.options().requires_grad(false));
    weight_value_ = weight;
  }
  return weight_;
}

// A rank without samples must still take part in the reduction.
std::function<Agreement()> StepRunner::run_empty() {
  const int64_t step = parts_.state.counters.step + 1;
  parts_.reducer.begin_micro_batch(true);
  parts_.marker.enter(Phase::kForward, step);
  at::Tensor nothing = at::zeros({}, parameters_.front().options().requires_grad(false));
  for (const at::Tensor& parameter : parameters_) nothing = nothing + parameter.sum();
  auto vote = start_vote();
  parts_.marker.enter(Phase::kBackward, step);
  run_collective("backward", [&] { (nothing * 0).backward(); });
  return vote;
}

at::Tensor StepRunner::micro_batch_loss(const Batch& batch) {
  const at::Tensor inputs = batch.inputs.to(options_.device, /*non_blocking=*/true);
  const at::Tensor targets = batch.targets.to(options_.device, /*non_blocking=*/true);
  const auto step = static_cast<uint64_t>(parts_.state.counters.step + 1);
  const Mixed mixed = mix(options_.mix, derive_seed(RandomDomain::kMixing, options_.seed, step, 0), inputs, targets);
  const at::Tensor taken = options_.channels_last ? with_channels_last(mixed.inputs) : mixed.inputs;
  const auto samples = [&] { return place() + ", samples " + describe_ids({batch}); };
  return of_the_model(samples, [&] {
    const AutocastScope autocast(options_.precision, options_.device.type());
    const at::Tensor outputs = parts_.state.model->forward(taken);
    parts_.objective.check(outputs, batch.targets, batch.ids);
    const at::Tensor loss = parts_.objective.loss_sum(outputs, targets);
    if (!mixed.others.defined()) return loss;
    const at::Tensor other = parts_.objective.loss_sum(outputs, mixed.others);
    return loss * mixed.share + other * (1 - mixed.share);
  });
}

std::function<Agreement()> StepRunner::start_vote() {
  my_loss_ = loss_sum_.defined() ? loss_sum_.item<double>() : 0;
  Ballot ballot;
  ballot.ready = false;
  if (hooks_.next_ballot) ballot = hooks_.next_ballot(parts_.state.counters.step + 1);
  ballot.loss_sum = my_loss_;
  ballot.non_finite = !std::isfinite(my_loss_);
  return parts_.vote.start(ballot);
}

std::string StepRunner::place() const {
  return "step " + std::to_string(parts_.state.counters.step + 1);
}

// Whose loss is not finite: the same on every rank. All ranks call it.
Vote::RankText StepRunner::blame(const std::vector<Batch>& batches) {
  std::string mine;
  if (!std::isfinite(my_loss_)) {
    mine = "the loss is not finite at " + place() + " on rank " + std::to_string(parts_.vote.rank()) + ", samples " +
           describe_ids(batches) + non_finite_data(batches);
  }
  return parts_.vote.first_text(mine);
}

void StepRunner::fail_loss(const std::vector<Batch>& batches) {
  const Vote::RankText blamed = blame(batches);
  throw BlamedError({ErrorKind::kNonFinite, blamed.text, place(),
                     "nothing was updated; look at these samples, lower the learning rate, or clip the gradient"},
                    blamed.rank);
}

// A NaN among the samples looks like an overflow of the scale, and is none.
void StepRunner::fail_scale(const std::vector<Batch>& batches, bool loss_too) {
  const Counters& counters = parts_.state.counters;
  std::string message = "the gradient is not finite at " + place() + " even with a loss scale of " +
                        format_number(parts_.state.scaler.current()) + " (" + plural(counters.skipped, "step") +
                        " skipped before it, " + plural(counters.updates, "update") + " made)";
  Vote::RankText blamed;
  if (loss_too) blamed = blame(batches);
  if (loss_too) message += "; " + blamed.text;
  throw BlamedError({ErrorKind::kNonFinite, message, place(),
                     "nothing was updated; look for NaN or huge values in the data, or use train.precision bf16 or "
                     "fp32"},
                    blamed.rank);
}

StepResult StepRunner::update(double loss) {
  TrainState& state = parts_.state;
  gradients_.clear();
  for (const at::Tensor& parameter : parameters_) gradients_.push_back(parameter.grad());
  StepResult result;
  result.loss = loss;
  result.skipped = state.scaler.unscale(gradients_);
  result.grad_norm = clip();
  // Reduced gradients are the same bits everywhere, so every rank takes the same branch without another vote.
  // Which rank's samples made it so is lost in the sum: nobody is blamed.
  if (!state.scaler.enabled() && !std::isfinite(result.grad_norm)) {
    throw Error(ErrorKind::kNonFinite, "the gradient, averaged over all ranks, is not finite at " + place(), place(),
                "nothing was updated; look for huge values in the data of this step, lower the learning rate, or clip "
                "the gradient");
  }
  const double factor = parts_.schedule.factor(state.counters.updates);
  result.lr = state.optimizer->base_lr() * factor;
  if (result.skipped) return result;
  state.optimizer->step(factor);
  if (state.ema) state.ema->update();
  return result;
}

// The norm is that of the gradient as it came: cutting its elements would hide an infinite one.
double StepRunner::clip() {
  if (options_.clip_grad_value == 0) return clip_grad_norm(gradients_, options_.clip_grad_norm).item<double>();
  const double norm = clip_grad_norm(gradients_, 0).item<double>();
  clip_grad_value(gradients_, options_.clip_grad_value);
  if (options_.clip_grad_norm > 0) clip_grad_norm(gradients_, options_.clip_grad_norm);
  return norm;
}

}  // namespace gputrain

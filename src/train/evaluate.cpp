#include "train/evaluate.h"

#include <utility>

#include <ATen/ATen.h>

#include "train/as_it_was.h"
#include "train/memory.h"
#include "train/precision.h"
#include "util/error.h"

namespace gputrain {
Evaluator::Evaluator(const Parts& parts, EvaluateOptions options) : parts_(parts), options_(std::move(options)) {}

std::optional<Metrics> Evaluator::run(int64_t step) {
  parts_.marker.enter(Phase::kEvaluation, step);
  const AsItWas kept(parts_.model, options_.device, AsItWas::Buffers::kLeft);
  const at::NoGradGuard no_grad;
  parts_.model.eval();
  const std::string where = "evaluation of step " + std::to_string(step);
  std::optional<Metrics> metrics = run_once(where);
  if (!metrics || parts_.ema == nullptr) return metrics;
  const Ema::Applied applied(*parts_.ema);
  const std::optional<Metrics> average = run_once(where);
  if (!average) return std::nullopt;
  metrics->add_average(*average);
  return metrics;
}

std::optional<Metrics> Evaluator::run_once(const std::string& where) {
  const std::unique_ptr<Loader> loader = make_eval_loader(parts_.source, options_.transforms, options_.loader);
  loader->seek(0, 0);
  at::Tensor sums = at::zeros({parts_.objective.sum_count()}, at::dtype(at::kDouble).device(options_.device));
  if (!add_all(*loader, sums, where)) return std::nullopt;
  at::Tensor total = sums.cpu();
  parts_.vote.comm().all_reduce_sum(total);
  return parts_.objective.metrics(total);
}

bool Evaluator::add_all(Loader& loader, at::Tensor& sums, const std::string& where) {
  // Equal on all ranks: those whose range is used up get empty steps.
  for (int64_t i = 0; i < loader.steps_per_epoch(); ++i) {
    if (stop_agreed()) return false;
    const std::optional<std::vector<Batch>> batches = loader.next_step();
    GP_CHECK(batches, "nobody cancels an evaluation");
    for (const Batch& batch : *batches) {
      with_memory_for(batch.inputs.size(0), parts_.vote.rank(), where, [&] { add(batch, sums); });
    }
  }
  return true;
}

void Evaluator::add(const Batch& batch, at::Tensor& sums) {
  // Blocking: the loader fills this memory again at the next next_step(), and nothing here waits for the device.
  at::Tensor inputs = batch.inputs.to(options_.device);
  if (options_.channels_last) inputs = with_channels_last(inputs);
  const at::Tensor targets = batch.targets.to(options_.device);
  const auto samples = [&] { return "sample " + std::to_string(batch.ids.front()) + " and those after it"; };
  of_the_model(samples, [&] {
    const AutocastScope autocast(options_.precision, options_.device.type());
    const at::Tensor outputs = parts_.model.forward(inputs);
    parts_.objective.check(outputs, batch.targets, batch.ids);
    sums += parts_.objective.sums(outputs, targets);
  });
}

bool Evaluator::stop_agreed() {
  Ballot ballot;
  ballot.stop = parts_.stop.reason();
  return parts_.vote.take(ballot).stop != StopReason::kNone;
}

void broadcast_buffers(Comm& gradients, const TrainState& state) {
  const std::vector<at::Tensor> buffers = state.buffers();
  if (!buffers.empty()) gradients.broadcast_all(buffers, 0);
}

}  // namespace gputrain

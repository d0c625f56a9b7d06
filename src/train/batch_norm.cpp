#include "train/batch_norm.h"

#include <algorithm>
#include <string_view>

#include <ATen/ATen.h>
#include <c10/util/Exception.h>

#include "spec/catalog/catalog.h"
#include "spec/shares.h"
#include "train/precision.h"
#include "util/error.h"

namespace gputrain {
namespace {

// LibTorch's own words, of the one version that is supported.
constexpr std::string_view kTooFew = "Expected more than 1 value per channel when training";

// How many values reach each layer only the model knows: it is asked with one sample, its running means put back.
bool takes_one_sample(Model& model, const BatchNormFacts& facts, at::ScalarType type) {
  std::vector<int64_t> shape{1};
  shape.insert(shape.end(), facts.input_shape.begin(), facts.input_shape.end());
  const at::NoGradGuard no_grad;
  std::vector<std::pair<at::Tensor, at::Tensor>> kept;
  for (const auto& [name, buffer] : named_buffers_of(model)) kept.emplace_back(buffer, buffer.clone());
  const bool was_training = model.is_training();
  model.train();
  bool takes = true;
  try {
    model.forward(at::zeros(shape, at::TensorOptions().dtype(type).device(facts.device)));
  } catch (const c10::Error& error) {
    // What else may be wrong with the input is the first step's to say.
    takes = std::string_view(error.what_without_backtrace()).find(kTooFew) == std::string_view::npos;
  }
  model.train(was_training);
  for (auto& [buffer, value] : kept) buffer.copy_(value);
  return takes;
}

}  // namespace

void check_batch_norm(const RunPlan& plan, Model& model, const BatchNormFacts& facts) {
  const CatalogEntry* entry = find_entry(CatalogKind::kModel, plan.model.name);
  if (entry == nullptr || !entry->has_batch_norm) return;
  const auto lone = find_lone_sample({.samples = facts.samples,
                                      .global_batch = plan.train.global_batch,
                                      .micro_batch = plan.train.micro_batch,
                                      .world_size = plan.launch.world_size,
                                      .steps = std::min(facts.total_steps, facts.steps_per_epoch)});
  if (!lone || takes_one_sample(model, facts, model_type(plan.train.precision))) return;
  const bool tail = lone->step > 0;  // else every step is like this one
  throw Error(ErrorKind::kSpec,
              plan.model.name +
                  " cannot train on one sample alone: its BatchNorm finds one value a channel in it, and "
                  "rank " +
                  std::to_string(lone->rank) + " gets a micro-batch of one sample in step " +
                  std::to_string(lone->step + 1) + (tail ? ", the short last one of an epoch" : ""),
              "train.micro_batch",
              tail ? "use data.tail: drop, another train.micro_batch or number of ranks, or larger images"
                   : "use a larger train.micro_batch or train.global_batch, fewer ranks, or larger images");
}

}  // namespace gputrain

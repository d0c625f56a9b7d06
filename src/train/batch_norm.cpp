#include "train/batch_norm.h"

#include <algorithm>
#include <string_view>

#include <ATen/ATen.h>

#include "spec/catalog/catalog.h"
#include "spec/shares.h"
#include "train/model_input.h"
#include "train/precision.h"
#include "util/error.h"

namespace gputrain {
namespace {

// LibTorch's own words, of the one version that is supported.
constexpr std::string_view kTooFew = "Expected more than 1 value per channel when training";

// How many values reach each layer only the model knows. What else may be wrong with the input is told elsewhere.
bool takes_one_sample(Model& model, const BatchNormFacts& facts, at::ScalarType type) {
  const at::TensorOptions options = at::dtype(type).device(facts.device);
  return refusal_of_one_sample(model, facts.input_shape, options, /*training=*/true).find(kTooFew) == std::string::npos;
}

}  // namespace

void check_batch_norm(const RunPlan& plan, Model& model, const BatchNormFacts& facts) {
  const CatalogEntry* entry = find_entry(CatalogKind::kModel, plan.model.name);
  if (entry != nullptr && !entry->has_batch_norm) return;  // a plug-in or TorchScript file says nothing: it is tried
  const auto lone = find_lone_sample({.samples = facts.samples,
                                      .global_batch = plan.train.global_batch,
                                      .micro_batch = plan.train.micro_batch,
                                      .world_size = plan.launch.world_size,
                                      .steps = std::min(facts.total_steps, facts.steps_per_epoch)});
  if (!lone || takes_one_sample(model, facts, model_type(plan.train.precision))) return;
  const bool tail = lone->step > 0;  // else every step is like this one
  throw Error(ErrorKind::kSpec,
              (entry != nullptr ? plan.model.name : "the model") +
                  " cannot train on one sample alone: its BatchNorm finds one value a channel in it, and "
                  "rank " +
                  std::to_string(lone->rank) + " gets a micro-batch of one sample in step " +
                  std::to_string(lone->step + 1) + (tail ? ", the short last one of an epoch" : ""),
              "train.micro_batch",
              tail ? "use data.tail: drop, another train.micro_batch or number of ranks, or larger images"
                   : "use a larger train.micro_batch or train.global_batch, fewer ranks, or larger images");
}

}  // namespace gputrain

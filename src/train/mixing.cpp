#include "train/mixing.h"

#include <algorithm>
#include <cmath>

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include "util/error.h"
#include "util/random.h"

namespace gputrain {
namespace {

// Beta(a, a), as torch.distributions.Beta draws it.
double draw_share(double a, uint64_t key) {
  at::Generator generator = at::detail::createCPUGenerator(key);
  return at::_sample_dirichlet(at::full({2}, a, at::kDouble), generator)[0].item<double>();
}

Mixed mix_values(double a, uint64_t key, const at::Tensor& inputs, const at::Tensor& targets) {
  const double share = draw_share(a, key);
  return {inputs * share + inputs.roll(1, 0) * (1 - share), targets.roll(1, 0), share};
}

Mixed mix_regions(double a, uint64_t key, const at::Tensor& inputs, const at::Tensor& targets) {
  if (inputs.dim() < 4) {
    throw Error(ErrorKind::kSpec, "data.cutmix needs images, but a micro-batch is " + c10::str(inputs.sizes()),
                "data.cutmix", "use data.mixup, which mixes any inputs");
  }
  const int64_t height = inputs.size(-2), width = inputs.size(-1);
  SplitMix random(key + 1);
  const auto row = static_cast<int64_t>(random.below(static_cast<uint64_t>(height)));
  const auto column = static_cast<int64_t>(random.below(static_cast<uint64_t>(width)));
  const double half = 0.5 * std::sqrt(1 - draw_share(a, key));
  const auto half_height = static_cast<int64_t>(half * static_cast<double>(height));
  const auto half_width = static_cast<int64_t>(half * static_cast<double>(width));
  const int64_t top = std::max<int64_t>(row - half_height, 0), bottom = std::min(row + half_height, height);
  const int64_t left = std::max<int64_t>(column - half_width, 0), right = std::min(column + half_width, width);
  at::Tensor mixed = inputs.clone();
  const auto region = [&](const at::Tensor& images) { return images.slice(-2, top, bottom).slice(-1, left, right); };
  region(mixed).copy_(region(inputs.roll(1, 0)));
  const double area = static_cast<double>((bottom - top) * (right - left)) / static_cast<double>(height * width);
  return {mixed, targets.roll(1, 0), 1 - area};
}

}  // namespace

Mixed mix(const MixPlan& plan, uint64_t key, const at::Tensor& inputs, const at::Tensor& targets) {
  if (plan.mixup <= 0 && plan.cutmix <= 0) return {inputs, {}, 1};
  const bool both = plan.mixup > 0 && plan.cutmix > 0;
  const bool regions = both ? SplitMix(key).uniform() < 0.5 : plan.cutmix > 0;
  return regions ? mix_regions(plan.cutmix, key, inputs, targets) : mix_values(plan.mixup, key, inputs, targets);
}

}  // namespace gputrain

#include "train/grad_scaler.h"

#include <ATen/ATen.h>

#include "util/error.h"

namespace gputrain {

GradScaler::GradScaler(bool enabled, at::Device device, GradScalerOptions options)
    : enabled_(enabled), options_(options) {
  if (!enabled_) return;
  const auto float_options = at::TensorOptions().device(device).dtype(at::kFloat);
  scale_ = at::full({}, options_.initial_scale, float_options);
  growth_tracker_ = at::zeros({}, float_options.dtype(at::kInt));
  found_inf_ = at::zeros({}, float_options);
}

bool GradScaler::enabled() const {
  return enabled_;
}

at::Tensor GradScaler::scale(const at::Tensor& loss) const {
  return enabled_ ? loss * scale_ : loss;
}

bool GradScaler::unscale(const std::vector<at::Tensor>& gradients) {
  if (!enabled_) return false;
  if (unscaled_) throw Error(ErrorKind::kInternal, "GradScaler::unscale called twice in one step");
  unscaled_ = true;
  if (gradients.empty()) return false;
  const at::NoGradGuard no_grad;
  // The reciprocal in double, as PyTorch takes it: float division may be imprecise under some compiler options.
  const at::Tensor inverse = scale_.to(at::kDouble).reciprocal().to(at::kFloat);
  found_inf_.zero_();
  at::_amp_foreach_non_finite_check_and_unscale_(gradients, found_inf_, inverse);
  return found_inf_.item<float>() != 0;
}

void GradScaler::update(bool found_inf) {
  if (!enabled_) return;
  if (!unscaled_) throw Error(ErrorKind::kInternal, "GradScaler::update without unscale");
  unscaled_ = false;
  const at::NoGradGuard no_grad;
  found_inf_.fill_(found_inf ? 1 : 0);
  at::_amp_update_scale_(scale_, growth_tracker_, found_inf_, options_.growth_factor, options_.backoff_factor,
                         options_.growth_interval);
}

double GradScaler::current() const {
  return enabled_ ? scale_.item<float>() : 0;
}

bool GradScaler::exhausted() const {
  return enabled_ && current() <= options_.floor;
}

Json GradScaler::state() const {
  if (!enabled_) return Json::object();
  return {{"scale", current()}, {"growth_tracker", growth_tracker_.item<int>()}};
}

void GradScaler::load(const Json& state) {
  const Json expected = this->state();
  const auto bad = [&state](const std::string& why) {
    return Error(ErrorKind::kCheckpoint, "gradient scaler state " + why + ": " + dump_line(state));
  };
  if (!state.is_object() || state.size() != expected.size()) throw bad("has missing or unknown items");
  if (!enabled_) return;
  if (!state.contains("scale") || !state.contains("growth_tracker")) throw bad("has missing or unknown items");
  if (!state["scale"].is_number() || !(state["scale"].get<double>() > 0)) throw bad("has a scale that is not positive");
  if (!state["growth_tracker"].is_number_integer()) throw bad("has a growth tracker that is not an integer");
  scale_.fill_(state["scale"].get<double>());
  growth_tracker_.fill_(state["growth_tracker"].get<int64_t>());
  unscaled_ = false;
}

}  // namespace gputrain

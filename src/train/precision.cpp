#include "train/precision.h"

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>

namespace gputrain {
namespace {

bool is_half(Precision precision) {
  return precision == Precision::kBf16 || precision == Precision::kFp16;
}

}  // namespace

at::ScalarType model_type(Precision precision) {
  return precision == Precision::kFp64 ? at::kDouble : at::kFloat;
}

bool needs_grad_scaler(Precision precision) {
  return precision == Precision::kFp16;
}

AutocastScope::AutocastScope(Precision precision, at::DeviceType device)
    : active_(is_half(precision)), device_(device) {
  if (!active_) return;
  enabled_before_ = at::autocast::is_autocast_enabled(device);
  type_before_ = at::autocast::get_autocast_dtype(device);
  at::autocast::set_autocast_enabled(device, true);
  at::autocast::set_autocast_dtype(device, precision == Precision::kBf16 ? at::kBFloat16 : at::kHalf);
  at::autocast::increment_nesting();
}

AutocastScope::~AutocastScope() {
  if (!active_) return;
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(device_, enabled_before_);
  at::autocast::set_autocast_dtype(device_, type_before_);
}

at::Tensor with_channels_last(const at::Tensor& values) {
  if (values.dim() != 4 && values.dim() != 5) return values;
  // to(), not contiguous(): of one channel both layouts are the same bytes, and only the strides tell kernels which.
  const auto format = values.dim() == 4 ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::ChannelsLast3d;
  return values.to(values.options(), /*non_blocking=*/false, /*copy=*/false, format);
}

void make_channels_last(torch::nn::Module& model) {
  for (at::Tensor& parameter : model.parameters()) parameter.set_data(with_channels_last(parameter.detach()));
}

void set_up_precision(Precision precision, bool deterministic) {
  at::Context& context = at::globalContext();
  context.setAllowTF32CuBLAS(precision == Precision::kTf32);
  context.setAllowTF32CuDNN(precision == Precision::kTf32);
  context.setDeterministicAlgorithms(deterministic, /*warn_only=*/false);
  context.setDeterministicCuDNN(deterministic);
  context.setDeterministicMkldnn(deterministic);
}

}  // namespace gputrain

#pragma once
// What a precision of the spec means for LibTorch: the model's type, autocast, TF32 and determinism switches.
#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include "spec/plan.h"

namespace torch::nn {
class Module;
}

namespace gputrain {

// Parameters are kept in double for fp64, else in float (bf16 and fp16 compute in half through autocast).
at::ScalarType model_type(Precision precision);
bool needs_grad_scaler(Precision precision);  // fp16 only: bf16 has float's range

// Autocast for the current thread while it lives: put it around one forward pass and its loss, not around backward or
// the optimizer. Scopes nest; the end of the outermost one drops the cached half-precision weights, which would be
// stale after an update. Without effect for fp64, fp32 and tf32. Not copyable; destroy on the constructing thread.
class AutocastScope {
 public:
  AutocastScope(Precision precision, at::DeviceType device);
  ~AutocastScope();
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;

 private:
  bool active_;
  at::DeviceType device_;
  bool enabled_before_ = false;
  at::ScalarType type_before_ = at::ScalarType::Float;
};

// A model whose weights of images' layers have their channels last in memory: Python's
// model.to(memory_format=torch.channels_last), and channels_last_3d.
void make_channels_last(torch::nn::Module& model);
// Images ([n, c, h, w], [n, c, d, h, w]) with their channels last in memory; anything else as it is.
at::Tensor with_channels_last(const at::Tensor& values);

// Process-wide switches, once before the model is used: TF32 in CUDA's matrix products and convolutions only for tf32
// (PyTorch's own default allows it in convolutions: here fp32 means fp32). `deterministic`: only deterministic kernels,
// an operation that has none throws. On CUDA the process must have been started with CUBLAS_WORKSPACE_CONFIG=:4096:8
// for that.
void set_up_precision(Precision precision, bool deterministic);

}  // namespace gputrain

#pragma once
// How much arithmetic a model is, and how much of it a device could do: MFU = the one over the other.
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "dist/comm.h"
#include "spec/plan.h"

namespace gputrain {

// Floating point operations of the matrix products, convolutions and scaled dot product attentions that `body` runs on
// this thread, from the shapes of what LibTorch executes: a multiply-add is two, anything else (bias, normalisation,
// activation, loss) none. The count of torch.utils.flop_counter.FlopCounterMode.
int64_t count_flops(const std::function<void()>& body);

// A training step costs three forward passes: backward does the work twice, once for the gradients of the inputs, once
// for those of the weights (Chowdhery et al. 2022, PaLM, appendix B). A frozen or first layer's saving is not
// subtracted, nothing recomputed is added.
constexpr int64_t kForwardsPerStep = 3;

// Dense peak of one device in operations a second, from its vendor's data sheet, for what `precision` multiplies in
// (with 32 bit accumulation; never the figure with sparsity). `device` is the name that CUDA gives it. nullopt: not in
// the table, a CPU, or a part of a GPU (MIG); never a guess.
std::optional<double> peak_flops(const std::string& device, Precision precision);

// The sum over all ranks, on every rank; nullopt when any rank's is unknown. A collective operation.
std::optional<double> total_peak_flops(Comm& comm, std::optional<double> mine);

}  // namespace gputrain

#pragma once
// The same arithmetic on every rank (trap 42): compared before training starts, and said where it cannot be had.
#include <string>
#include <vector>

#include "dist/comm.h"
#include "spec/plan.h"

namespace gputrain {

// Settings that change numbers, as the plan asks and as LibTorch reports them in this process (after
// set_up_precision): precision, deterministic kernels, memory layout, TF32 and reduced-precision switches, cuDNN
// benchmark, LibTorch's version. One "name value" each.
std::vector<std::string> numeric_settings(const RunPlan& plan);

// Variables of the environment that NVIDIA's libraries and LibTorch read by themselves, and that change numbers without
// any switch above showing it.
inline constexpr const char* kNumericVariables[] = {"NVIDIA_TF32_OVERRIDE", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
                                                    "CUBLAS_WORKSPACE_CONFIG"};
// One more setting to compare: "NVIDIA_TF32_OVERRIDE=0", "NVIDIA_TF32_OVERRIDE is not set" for a null `value`.
std::string variable_line(const std::string& name, const char* value);

// What this machine's arithmetic depends on besides: instruction set, threads, device.
std::vector<std::string> numeric_environment(const std::string& device);

// Settings (lines of variables among them) must be equal on all ranks, else Error(kEnvironment) on every rank: all have
// the same plan, so it is a host's variables, which the hint names where it is one of ours, or another build. An
// environment that differs is no error: mixed hosts train, but the sums are those of this mix; the notice says so (""
// when equal). A collective operation.
std::string check_same_arithmetic(Comm& control, const std::vector<std::string>& settings,
                                  const std::vector<std::string>& environment);

}  // namespace gputrain

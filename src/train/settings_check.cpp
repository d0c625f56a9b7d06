#include "train/settings_check.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <torch/headeronly/version.h>

#include "dist/agreement.h"
#include "util/error.h"
#include "util/text.h"

namespace gputrain {
namespace {

std::string setting(const std::string& name, bool on) {
  return name + (on ? " on" : " off");
}

std::string remedy(const std::string& difference) {
  for (const std::string name : kNumericVariables) {
    if (difference.find("`" + name) != std::string::npos)
      return "set the environment variable " + name + " to the same value on every host, or on none";
  }
  return "every rank has the same plan: install the same gputrain and LibTorch on all hosts, and look for variables of "
         "theirs that only some of them set";
}

}  // namespace

std::string variable_line(const std::string& name, const char* value) {
  return value == nullptr ? name + " is not set" : name + "=" + printable(value);
}

std::vector<std::string> numeric_settings(const RunPlan& plan) {
  const at::Context& context = at::globalContext();
  return {"precision " + std::string(to_string(plan.train.precision)),
          "reducer " + plan.reducer,
          setting("channels_last", plan.train.channels_last),
          setting("deterministic", context.deterministicAlgorithms()),
          setting("deterministic cuDNN", context.deterministicCuDNN()),
          setting("deterministic oneDNN", context.deterministicMkldnn()),
          setting("cuDNN", context.userEnabledCuDNN()),
          setting("cuDNN benchmark", context.benchmarkCuDNN()),
          setting("oneDNN", context.userEnabledMkldnn()),
          setting("TF32 in matrix products", context.allowTF32CuBLAS()),
          setting("TF32 in convolutions", context.allowTF32CuDNN()),
          setting("fp16 sums in matrix products",
                  context.allowFP16ReductionCuBLAS() == at::CuBLASReductionOption::AllowReducedPrecisionWithSplitK),
          setting("bf16 sums in matrix products",
                  context.allowBF16ReductionCuBLAS() == at::CuBLASReductionOption::AllowReducedPrecisionWithSplitK),
          setting("flash attention", context.userEnabledFlashSDP()),
          setting("memory-efficient attention", context.userEnabledMemEfficientSDP()),
          setting("cuDNN attention", context.userEnabledCuDNNSDP()),
          std::string("LibTorch ") + TORCH_VERSION};
}

std::vector<std::string> numeric_environment(const std::string& device) {
  return {"isa " + at::get_cpu_capability(), "threads " + std::to_string(at::get_num_threads()), "device " + device};
}

std::string check_same_arithmetic(Comm& control, const std::vector<std::string>& settings,
                                  const std::vector<std::string>& environment) {
  const std::string difference = first_disagreement(control, settings);
  if (!difference.empty()) {
    throw Error(ErrorKind::kEnvironment, "a setting that changes numbers differs between the ranks: " + difference, "",
                remedy(difference));
  }
  const std::string mixed = first_disagreement(control, environment);
  return mixed.empty() ? ""
                       : "the ranks compute on different machines (" + mixed +
                             "): results are those of this mix, bit for bit only on the same one";
}

}  // namespace gputrain

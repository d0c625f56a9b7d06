// The data sheets' peaks. A new GPU is one row: its exact CUDA name (nvidia-smi -L) and its dense figures.
#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "train/flops.h"

namespace gputrain {
namespace {

constexpr double kUnknown = 0;

// In 1e12 operations a second; a precision that the device does not multiply in, or that no data sheet gives, is
// kUnknown. Matrix products in double run on the tensor cores where those have it.
struct Peaks {
  double fp64, fp32, tf32, bf16, fp16;
};

struct Row {
  Peaks peaks;
  std::vector<std::string_view> names;  // without the makers' words in front
};

// Sources: NVIDIA's data sheets and white papers of each (V100 update of January 2020; T4; A100 r4; A30; A10; A40; A10G
// for AWS of February 2022; Hopper H100, H100 NVL, H200, GH200; L4; L40S; HGX B200; "Ada GPU Architecture" and "Ampere
// GA102" for GeForce, figures with FP32 accumulation). Figures given with sparsity only are halved.
const std::vector<Row>& table() {
  static const std::vector<Row> rows{
      {{7.8, 15.7, kUnknown, kUnknown, 125}, {"V100-SXM2-16GB", "V100-SXM2-32GB"}},
      {{7.0, 14.0, kUnknown, kUnknown, 112}, {"V100-PCIE-16GB", "V100-PCIE-32GB"}},
      {{8.2, 16.4, kUnknown, kUnknown, 130}, {"V100S-PCIE-32GB"}},
      {{kUnknown, 8.1, kUnknown, kUnknown, 65}, {"T4"}},
      {{19.5, 19.5, 156, 312, 312},
       {"A100-SXM4-40GB", "A100-SXM4-80GB", "A100-PCIE-40GB", "A100-PCIE-80GB", "A100 80GB PCIe"}},
      {{10.3, 10.3, 82, 165, 165}, {"A30"}},
      {{kUnknown, 31.2, 62.5, 125, 125}, {"A10"}},
      {{kUnknown, kUnknown, kUnknown, 70, 70}, {"A10G"}},
      {{kUnknown, 37.4, 74.8, 149.7, 149.7}, {"A40"}},
      {{67, 67, 494.5, 989.5, 989.5}, {"H100 80GB HBM3", "H200", "GH200 480GB", "GH200 120GB"}},
      {{51, 51, 378, 756.5, 756.5}, {"H100 PCIe"}},
      {{60, 60, 417.5, 835.5, 835.5}, {"H100 NVL", "H200 NVL"}},
      {{kUnknown, 30.3, 60, 121, 121}, {"L4"}},
      {{kUnknown, 91.6, 183, 362.05, 362.05}, {"L40S"}},
      {{kUnknown, kUnknown, 1125, 2250, 2250}, {"B200"}},
      {{kUnknown, 35.6, 35.6, 71, 71}, {"RTX 3090"}},
      {{kUnknown, 82.6, 82.6, 165.2, 165.2}, {"RTX 4090"}}};
  return rows;
}

std::string_view model_of(std::string_view name) {
  for (const std::string_view word : {"NVIDIA ", "Tesla ", "GeForce "}) {
    if (name.substr(0, word.size()) == word) name.remove_prefix(word.size());
  }
  return name;
}

double peak_of(const Peaks& peaks, Precision precision) {
  switch (precision) {
    case Precision::kFp64:
      return peaks.fp64;
    case Precision::kFp32:
      return peaks.fp32;
    case Precision::kTf32:
      return peaks.tf32;
    case Precision::kBf16:
      return peaks.bf16;
    case Precision::kFp16:
      return peaks.fp16;
  }
  return kUnknown;
}

}  // namespace

std::optional<double> peak_flops(const std::string& device, Precision precision) {
  const std::string_view model = model_of(device);
  for (const Row& row : table()) {
    if (std::find(row.names.begin(), row.names.end(), model) == row.names.end()) continue;
    const double peak = peak_of(row.peaks, precision);
    if (peak == kUnknown) return std::nullopt;
    return peak * 1e12;
  }
  return std::nullopt;
}

}  // namespace gputrain

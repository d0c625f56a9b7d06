#pragma once
// Exact evaluation: plain sums over samples, reduced over ranks, divided once.
#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

namespace gputrain {

struct Metrics {
  double loss = 0;  // mean cross entropy; NaN without samples
  double accuracy =
      0;  // share of samples whose largest logit is the target's (the first of equal ones); NaN without samples
  int64_t count = 0;  // samples
};

// Accumulates on the device, without waiting for it. Each sample must be added once on one rank: then the sum of all
// ranks' sums() is the sum over the data set, however it was batched and cut.
class MetricSums {
 public:
  explicit MetricSums(at::Device device);
  // Logits [n, classes] and targets [n]; n may be 0.
  void add(const at::Tensor& logits, const at::Tensor& targets);
  // [loss_sum, correct, count] in double: what ranks add up.
  const at::Tensor& sums() const { return sums_; }

 private:
  at::Tensor sums_;
};

// From the sums over all ranks. Waits for the device.
Metrics metrics_of(const at::Tensor& sums);

std::vector<std::string> metric_names();  // "accuracy", "loss": a test compares them with the catalog
// Error(kSpec) for another name.
double metric_value(const Metrics& metrics, const std::string& name);

}  // namespace gputrain

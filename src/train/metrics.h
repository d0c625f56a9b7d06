#pragma once
// Exact evaluation: plain sums over samples, reduced over ranks, divided once.
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

namespace gputrain {

// What an evaluation found: the metrics of the task by the catalog's names, NaN without samples.
struct Metrics {
  std::vector<std::pair<std::string, double>> values;
  int64_t samples = 0;

  // Error(kSpec) for a metric that was not measured.
  double at(const std::string& name) const;
  // The moving average's value where there is one ("ema_" + name), else the weights' own: what best and early stopping
  // go by.
  double judged(const std::string& name) const;
  // Adds those of the moving average of the weights, as "ema_accuracy".
  void add_average(const Metrics& average);

 private:
  const double* find(const std::string& name) const;
};

}  // namespace gputrain

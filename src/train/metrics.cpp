#include "train/metrics.h"

#include <ATen/ATen.h>

#include "train/loss.h"
#include "util/error.h"
#include "util/text.h"

namespace gputrain {
namespace {

struct Binding {
  const char* name;
  double Metrics::*member;
};

constexpr Binding kBindings[] = {{"accuracy", &Metrics::accuracy}, {"loss", &Metrics::loss}};

}  // namespace

MetricSums::MetricSums(at::Device device)
    : sums_(at::zeros({3}, at::TensorOptions().device(device).dtype(at::kDouble))) {}

void MetricSums::add(const at::Tensor& logits, const at::Tensor& targets) {
  const at::NoGradGuard no_grad;
  const at::Tensor loss = cross_entropy_each(logits, targets).sum(at::kDouble);
  const at::Tensor correct = logits.argmax(1).eq(targets).sum(at::kDouble);
  sums_ += at::stack({loss, correct, at::full_like(correct, static_cast<double>(targets.size(0)))});
}

Metrics metrics_of(const at::Tensor& sums) {
  const at::Tensor host = sums.cpu();
  const double count = host[2].item<double>();
  return {.loss = host[0].item<double>() / count,
          .accuracy = host[1].item<double>() / count,
          .count = static_cast<int64_t>(count)};
}

std::vector<std::string> metric_names() {
  std::vector<std::string> names;
  for (const Binding& binding : kBindings) names.emplace_back(binding.name);
  return names;
}

double metric_value(const Metrics& metrics, const std::string& name) {
  for (const Binding& binding : kBindings) {
    if (name == binding.name) return metrics.*binding.member;
  }
  throw Error(ErrorKind::kSpec, "unknown metric " + printable(name), "", "one of " + join_words(metric_names(), "or"));
}

}  // namespace gputrain

#pragma once
// A model whose gradient is known in closed form: independent linear heads, loss = 0.5 |x W^T + b - t|^2 summed over
// samples.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include "dist/collective_error.h"
#include "dist/reducer.h"

namespace gputrain::test {

// Values that need no random generator and look alike on every rank.
inline at::Tensor wave(at::IntArrayRef sizes, double phase, at::ScalarType dtype) {
  const int64_t count = c10::multiply_integers(sizes);
  return at::sin(at::arange(count, at::kDouble) * 0.7310585 + phase).reshape(sizes).to(dtype);
}

struct ToyModel {
  std::vector<at::Tensor> parameters;  // head k: weight 2k, bias 2k + 1
  std::vector<std::string> names;
  int64_t inputs;

  ToyModel(int64_t inputs, const std::vector<int64_t>& outputs, at::ScalarType dtype = at::kDouble) : inputs(inputs) {
    for (size_t k = 0; k < outputs.size(); ++k) {
      add("head" + std::to_string(k) + ".weight", wave({outputs[k], inputs}, 1.0 + k, dtype));
      add("head" + std::to_string(k) + ".bias", wave({outputs[k]}, 2.0 + k, dtype));
    }
  }

  at::Tensor samples(int64_t count, double phase = 0) const {
    return wave({count, inputs}, phase, parameters[0].scalar_type());
  }
  size_t heads() const { return parameters.size() / 2; }
  at::Tensor residual(size_t k, const at::Tensor& x) const {
    return at::linear(x, parameters[2 * k], parameters[2 * k + 1]) - 1;
  }

  // Summed over the samples of x; 0 x sum of the parameters without any.
  at::Tensor summed_loss(const at::Tensor& x) const {
    at::Tensor loss = at::zeros({}, x.options());
    for (size_t k = 0; k < heads(); ++k) {
      loss = x.size(0) > 0 ? loss + residual(k, x).square().sum() * 0.5
                           : loss + (parameters[2 * k].sum() + parameters[2 * k + 1].sum()) * 0;
    }
    return loss;
  }

  // Of the mean over x, in the order of `parameters`.
  std::vector<at::Tensor> analytic_gradient(const at::Tensor& x) const {
    const at::NoGradGuard no_grad;
    std::vector<at::Tensor> gradients;
    for (size_t k = 0; k < heads(); ++k) {
      const at::Tensor r = residual(k, x);
      gradients.push_back(r.t().mm(x) / x.size(0));
      gradients.push_back(r.sum(0) / x.size(0));
    }
    return gradients;
  }

 private:
  void add(const std::string& name, const at::Tensor& value) {
    names.push_back(name);
    parameters.push_back(value.requires_grad_(true));
  }
};

// What the training loop does with a global batch: this rank's share, in micro-batches, then finish().
struct StepInput {
  at::Tensor global_batch;
  int64_t micro_batch;
};

inline void run_step(GradReducer& reducer, const Comm& comm, const ToyModel& model, const StepInput& input) {
  const int64_t count = input.global_batch.size(0);
  const int64_t begin = comm.rank() * count / comm.world_size(), end = (comm.rank() + 1) * count / comm.world_size();
  reducer.zero_gradients();
  int64_t at = begin;
  do {
    const int64_t next = std::min(at + input.micro_batch, end);
    reducer.begin_micro_batch(next == end);
    const at::Tensor loss = model.summed_loss(input.global_batch.slice(0, at, next)) * comm.world_size() / count;
    run_collective("gradient all-reduce", [&] { torch::autograd::backward({loss}, {}); });
    at = next;
  } while (at < end);
  reducer.finish();
}

inline void descend(ToyModel& model, double rate) {
  const at::NoGradGuard no_grad;
  for (auto& parameter : model.parameters) parameter.sub_(parameter.grad(), rate);
}

// max |a - b| / max |b|
inline double relative_difference(const at::Tensor& a, const at::Tensor& b) {
  return ((a - b).abs().max() / b.abs().max()).item<double>();
}

// Whether every rank holds the same bits.
inline bool same_on_all_ranks(Comm& comm, const std::vector<at::Tensor>& tensors) {
  for (const auto& tensor : tensors) {
    at::Tensor reference = tensor.detach().clone();
    comm.broadcast(reference, 0);
    if (!at::equal(reference, tensor.detach())) return false;
  }
  return true;
}

}  // namespace gputrain::test

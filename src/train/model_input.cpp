#include "train/model_input.h"

#include <utility>

#include <ATen/ATen.h>
#include <c10/util/Exception.h>

#include "train/as_it_was.h"
#include "train/memory.h"
#include "util/error.h"
#include "util/text.h"

namespace gputrain {

namespace {

at::Tensor zeros(int64_t samples, const std::vector<int64_t>& shape, const at::TensorOptions& options) {
  std::vector<int64_t> batch{samples};
  batch.insert(batch.end(), shape.begin(), shape.end());
  return at::zeros(batch, options);
}

at::Tensor forward_zeros(Model& model, const std::vector<int64_t>& shape, const at::TensorOptions& options,
                         bool training) {
  const at::NoGradGuard no_grad;
  const AsItWas kept(model, options.device(), AsItWas::Buffers::kPutBack);
  model.train(training);
  return model.forward(zeros(1, shape, options));
}

// Leaves every parameter's gradient undefined.
std::vector<std::string> unreached_by_backward(Model& model, const at::Tensor& inputs) {
  const AsItWas kept(model, inputs.device(), AsItWas::Buffers::kPutBack);
  model.train();
  const auto parameters = named_parameters_of(model);
  const auto clear = [&] {
    for (const auto& [name, parameter] : parameters) parameter.mutable_grad() = at::Tensor();
  };
  clear();
  std::vector<std::string> unreached;
  try {
    const at::Tensor sum = model.forward(inputs).sum();
    if (sum.requires_grad()) sum.backward();
    for (const auto& [name, parameter] : parameters) {
      if (!parameter.grad().defined()) unreached.push_back(name);
    }
  } catch (...) {
    clear();
    throw;
  }
  clear();
  return unreached;
}

}  // namespace

at::Tensor output_for_one_sample(Model& model, const std::vector<int64_t>& shape, const at::TensorOptions& options) {
  return forward_zeros(model, shape, options, /*training=*/false);
}

std::string refusal_of_one_sample(Model& model, const std::vector<int64_t>& shape, const at::TensorOptions& options,
                                  bool training) {
  try {
    forward_zeros(model, shape, options, training);
  } catch (const c10::Error& error) {
    if (is_out_of_memory(error)) throw;
    return first_line(error);
  }
  return "";
}

void check_all_trained(Model& model, const std::vector<int64_t>& shape, const at::TensorOptions& options) {
  constexpr int64_t kSamples = 2;  // BatchNorm refuses one
  constexpr size_t kShown = 5;
  std::vector<std::string> names;
  try {
    names = unreached_by_backward(model, zeros(kSamples, shape, options));
  } catch (const c10::Error& error) {
    if (is_out_of_memory(error)) return;  // one sample may fit; the first step tells
    throw Error(ErrorKind::kSpec, "the model cannot be trained, a backward pass through it fails: " + first_line(error),
                "model", "train a step of it in Python, in training mode and with two samples, and see what is wrong");
  }
  if (names.empty()) return;
  if (names.size() == named_parameters_of(model).size()) {
    throw Error(ErrorKind::kSpec, "the model's output does not depend on any of its parameters: nothing to train",
                "model", "look for detach, no_grad or a whole-number output in its forward");
  }
  const size_t count = names.size();
  const std::string more = count > kShown ? " and " + std::to_string(count - kShown) + " more" : "";
  if (count > kShown) names.resize(kShown);
  const std::string shown = join(names, ", ");
  throw Error(ErrorKind::kSpec,
              "no gradient reaches " + plural(static_cast<int64_t>(count), "trained parameter") +
                  ", which the model's output does not depend on: " + shown + more,
              "model", "freeze them: model.freeze: [" + shown + (more.empty() ? "]" : ", ...]"));
}

at::Tensor check_model_takes(Model& model, const std::vector<int64_t>& shape, const at::TensorOptions& options,
                             const std::string& role) {
  try {
    return output_for_one_sample(model, shape, options);
  } catch (const Error& error) {
    if (error.kind != ErrorKind::kData) throw;
    throw Error(ErrorKind::kSpec, error.message, "model", error.hint);  // no sample is at fault, all are so
  } catch (const c10::Error& error) {
    if (is_out_of_memory(error)) throw;
    std::vector<std::string> dims;
    dims.reserve(shape.size());
    for (const int64_t dim : shape) dims.push_back(std::to_string(dim));
    throw Error(ErrorKind::kSpec,
                "the model does not take the samples of " + role + ", which are " + join(dims, " x ") +
                    " after their transforms: " + first_line(error),
                "model", "change the model's arguments or " + role + "'s transforms so that they fit");
  }
}

}  // namespace gputrain

#include "train/model_input.h"

#include <utility>

#include <ATen/ATen.h>
#include <c10/util/Exception.h>

#include "train/memory.h"
#include "util/error.h"
#include "util/text.h"

namespace gputrain {

std::string refusal_of_one_sample(Model& model, const std::vector<int64_t>& shape, const at::TensorOptions& options,
                                  bool training) {
  std::vector<int64_t> batch{1};
  batch.insert(batch.end(), shape.begin(), shape.end());
  const at::NoGradGuard no_grad;
  std::vector<std::pair<at::Tensor, at::Tensor>> kept;  // running means, which a pass in training moves
  if (training) {
    for (const auto& [name, buffer] : named_buffers_of(model)) kept.emplace_back(buffer, buffer.clone());
  }
  const bool was_training = model.is_training();
  model.train(training);
  std::string refusal;
  try {
    model.forward(at::zeros(batch, options));
  } catch (const c10::Error& error) {
    if (is_out_of_memory(error)) throw;
    const std::string text = error.what_without_backtrace();
    refusal = text.substr(0, text.find('\n'));
  }
  model.train(was_training);
  for (auto& [buffer, value] : kept) buffer.copy_(value);
  return refusal;
}

void check_model_takes(Model& model, const std::vector<int64_t>& shape, const at::TensorOptions& options,
                       const std::string& role) {
  const std::string refusal = refusal_of_one_sample(model, shape, options, /*training=*/false);
  if (refusal.empty()) return;
  std::vector<std::string> dims;
  dims.reserve(shape.size());
  for (const int64_t dim : shape) dims.push_back(std::to_string(dim));
  throw Error(ErrorKind::kSpec,
              "the model does not take the samples of " + role + ", which are " + join(dims, " x ") +
                  " after their transforms: " + refusal,
              "model", "change the model's arguments or " + role + "'s transforms so that they fit");
}

}  // namespace gputrain

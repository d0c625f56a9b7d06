#include "train/model_input.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>

#include "util/error.h"
#include "util/text.h"

namespace gputrain {

void check_model_takes(Model& model, const std::vector<int64_t>& shape, const at::TensorOptions& options,
                       const std::string& role) {
  std::vector<int64_t> batch{1};
  batch.insert(batch.end(), shape.begin(), shape.end());
  const at::NoGradGuard no_grad;
  const bool was_training = model.is_training();
  model.eval();
  std::string refusal;
  try {
    model.forward(at::zeros(batch, options));
  } catch (const c10::OutOfMemoryError&) {
    model.train(was_training);
    throw;
  } catch (const c10::Error& error) {
    const std::string text = error.what_without_backtrace();
    refusal = text.substr(0, text.find('\n'));
  }
  model.train(was_training);
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

#include "train/as_it_was.h"

#include <mutex>

#include <ATen/ATen.h>

namespace gputrain {

AsItWas::AsItWas(Model& model, at::Device device, Buffers buffers) : model_(model), was_training_(model.is_training()) {
  if (buffers == Buffers::kPutBack) {
    for (const auto& [name, buffer] : named_buffers_of(model)) buffers_.emplace_back(buffer, buffer.clone());
  }
  keep(at::globalContext().defaultGenerator(at::kCPU));
  if (device != at::kCPU) keep(at::globalContext().defaultGenerator(device));
}

AsItWas::~AsItWas() {
  const at::NoGradGuard no_grad;
  model_.train(was_training_);
  for (auto& [buffer, value] : buffers_) buffer.copy_(value);
  for (auto& [generator, state] : generators_) {
    const std::lock_guard lock(generator.mutex());
    generator.set_state(state);
  }
}

void AsItWas::keep(at::Generator generator) {
  const std::lock_guard lock(generator.mutex());
  generators_.emplace_back(generator, generator.get_state());
}

}  // namespace gputrain

#pragma once
#include <utility>
#include <vector>

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include "model/model.h"

namespace gputrain {

// Puts back at the end of its life what a pass through a model changes beside gradients: the mode, the random numbers
// that dropout draws (the CPU's and `device`'s), and, if asked for, the buffers: running means, which a pass in
// training moves, and any pass of a module that was traced in training mode.
class AsItWas {
 public:
  enum class Buffers { kLeft, kPutBack };
  AsItWas(Model& model, at::Device device, Buffers buffers);
  ~AsItWas();
  AsItWas(const AsItWas&) = delete;
  AsItWas& operator=(const AsItWas&) = delete;

 private:
  void keep(at::Generator generator);

  Model& model_;
  bool was_training_;
  std::vector<std::pair<at::Tensor, at::Tensor>> buffers_;
  std::vector<std::pair<at::Generator, at::Tensor>> generators_;
};

}  // namespace gputrain

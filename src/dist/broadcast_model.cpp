#include <ATen/ATen.h>

#include "dist/agreement.h"
#include "dist/reducer.h"

namespace gputrain {
namespace {

// "fc1.weight float32 [256, 784]"
std::string describe(const std::string& name, const at::Tensor& tensor) {
  std::string shape;
  for (const int64_t size : tensor.sizes()) shape += (shape.empty() ? "" : ", ") + std::to_string(size);
  return name + " " + c10::toString(tensor.scalar_type()) + " [" + shape + "]";
}

}  // namespace

void broadcast_model(Comm& comm, const std::vector<std::pair<std::string, at::Tensor>>& tensors) {
  if (comm.world_size() == 1) return;
  std::vector<std::string> lines;
  std::vector<at::Tensor> values;
  for (const auto& [name, tensor] : tensors) {
    lines.push_back(describe(name, tensor));
    values.push_back(tensor);
  }
  check_agreement(comm, "the model", lines);
  comm.broadcast_all(std::move(values), 0);
}

}  // namespace gputrain

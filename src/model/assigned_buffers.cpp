#include "model/assigned_buffers.h"

#include <set>

#include <ATen/ATen.h>
#include <torch/csrc/jit/ir/ir.h>

#include "util/error.h"
#include "util/text.h"

namespace gputrain {
namespace {

void find_assigned(const torch::jit::Block* block, std::set<std::string>& names) {
  for (const torch::jit::Node* node : block->nodes()) {
    if (node->kind() == c10::prim::SetAttr) names.insert(node->s(c10::attr::name));
    for (const torch::jit::Block* inner : node->blocks()) find_assigned(inner, names);
  }
}

// Attributes, by their own name: which module's is not worth telling apart.
std::set<std::string> assigned_names(const torch::jit::Module& script) {
  std::set<std::string> names;
  for (const torch::jit::Module& module : script.modules()) {
    for (const torch::jit::Method& method : module.get_methods()) find_assigned(method.graph()->block(), names);
  }
  return names;
}

// A copy: what the script assigned may be a view of a parameter, of the input, or one value stretched over a shape.
at::Tensor value_for(const at::Tensor& buffer, const at::Tensor& assigned) {
  return assigned.detach().to(buffer.options(), /*non_blocking=*/false, /*copy=*/true, at::MemoryFormat::Contiguous);
}

bool fits(const at::Tensor& buffer, const at::Tensor& assigned) {
  return assigned.sizes() == buffer.sizes() && (assigned.scalar_type() == buffer.scalar_type() ||
                                                (assigned.is_floating_point() && buffer.is_floating_point()));
}

std::string describe(const at::Tensor& tensor) {
  std::vector<std::string> sizes;
  for (const int64_t size : tensor.sizes()) sizes.push_back(std::to_string(size));
  return std::string(c10::toString(tensor.scalar_type())) + "[" + join(sizes, ", ") + "]";
}

}  // namespace

AssignedBuffers::AssignedBuffers(const torch::jit::Module& script) {
  const std::set<std::string> assigned = assigned_names(script);
  if (assigned.empty()) return;
  for (const auto& place : script.named_modules()) {
    for (const auto& item : place.value.named_buffers(/*recurse=*/false)) {
      if (!assigned.contains(item.name)) continue;
      const std::string name = place.name.empty() ? item.name : place.name + "." + item.name;
      buffers_.push_back({name, place.value._ivalue(), place.value.type()->getAttributeSlot(item.name), item.value});
    }
  }
}

// The same values, but another object with a version of its own: to autograd, the script's tensor is never changed by
// take_back().
void AssignedBuffers::lend() {
  for (Buffer& buffer : buffers_) {
    buffer.lent = buffer.tensor.variable_data();
    buffer.owner->setSlot(buffer.slot, buffer.lent);
  }
}

void AssignedBuffers::take_back(const std::string& path) {
  const at::NoGradGuard no_grad;
  for (Buffer& buffer : buffers_) {
    const c10::IValue value = buffer.owner->getSlot(buffer.slot);
    buffer.owner->setSlot(buffer.slot, buffer.tensor);
    const bool unassigned = value.isTensor() && value.toTensor().is_same(buffer.lent);
    buffer.lent.reset();
    if (unassigned) continue;  // perhaps changed in place: the memory is the same
    if (!value.isTensor() || !fits(buffer.tensor, value.toTensor())) {
      throw Error(ErrorKind::kSpec,
                  path + " assigns " + (value.isTensor() ? describe(value.toTensor()) : value.tagKind()) +
                      " to its buffer " + buffer.name + ", which is " + describe(buffer.tensor),
                  "model.torchscript", "keep a buffer's shape and type, or make it a plain attribute of the module");
    }
    // Not copied in place: the values that were lent are still those of the forward pass.
    at::Tensor(buffer.tensor).set_data(value_for(buffer.tensor, value.toTensor()));
  }
}

}  // namespace gputrain

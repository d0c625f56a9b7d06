#pragma once
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/csrc/jit/api/module.h>

namespace gputrain {

// The buffers of a script that its code assigns, `self.avg = 0.9 * self.avg + ...`: each time they are another tensor,
// which nobody who holds the one of before would see (checkpoints, broadcasts). So there are two: the script's, made
// anew for each call, which a backward pass may need as it was, and the one that the rest of the program knows, which
// takes over the value after the call and stays the same object. Between calls the script holds that one.
class AssignedBuffers {
 public:
  explicit AssignedBuffers(const torch::jit::Module& script);

  // Around each call of the script. A call that throws leaves the buffers' values as they were before it, except where
  // it changed them in place; lend() then begins anew.
  void lend();
  // Error(kSpec) when a buffer has become another shape or kind of number, or no tensor: no checkpoint could be loaded
  // into it. `path` is the script's, for the message.
  void take_back(const std::string& path);

 private:
  struct Buffer {
    std::string name;  // "encoder.avg"
    torch::jit::ObjectPtr owner;
    size_t slot;
    at::Tensor tensor;  // everyone's
    at::Tensor lent = {};
  };
  std::vector<Buffer> buffers_;
};

}  // namespace gputrain

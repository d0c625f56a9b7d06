#include "model/torchscript.h"

#include <algorithm>
#include <utility>

#include <c10/util/Exception.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/csrc/jit/serialization/import.h>

#include "model/assigned_buffers.h"
#include "model/script_error.h"
#include "sys/fs.h"
#include "util/error.h"
#include "util/looks_like.h"
#include "util/text.h"

namespace gputrain {
namespace {

constexpr const char* kWhere = "model.torchscript";
constexpr const char* kSaveHint = "save it in Python with torch.jit.script(model).save(\"model.pt\")";

[[noreturn]] void refuse(ErrorKind kind, const std::string& path, const std::string& what,
                         const std::string& hint = kSaveHint) {
  throw Error(kind, path + " " + what, kWhere, hint);
}

void check_is_archive(const std::string& path) {
  std::string head;
  try {
    FileSystem& fs = real_file_system();
    head.resize(static_cast<size_t>(std::min<int64_t>(fs.size(path), 512)));
    fs.read_at(path, 0, head);
  } catch (const Error& error) {
    throw Error(ErrorKind::kData, error.message, kWhere, kSaveHint);
  }
  if (!head.starts_with("PK\x03\x04")) refuse(ErrorKind::kData, path, "is no TorchScript file: it " + looks_like(head));
}

torch::jit::Module load_file(const std::string& path) {
  check_is_archive(path);
  try {
    return torch::jit::load(path, at::Device(at::kCPU));
  } catch (const c10::Error& error) {
    const std::string text = error.what_without_backtrace();
    // torch.save writes the same kind of archive, without code.
    if (text.find("constants.pkl") != std::string::npos) {
      refuse(ErrorKind::kData, path, "is no TorchScript file: it is an archive that torch.save wrote, without code");
    }
    refuse(ErrorKind::kData, path, "cannot be loaded as TorchScript: " + text.substr(0, text.find('\n')),
           "save it again with the PyTorch of this LibTorch, from operations of PyTorch's own");
  }
}

// Types that say nothing about a value are left to the first run.
void check_forward(const torch::jit::Module& script, const std::string& path) {
  const auto method = script.find_method("forward");
  if (!method) refuse(ErrorKind::kSpec, path, "has no method forward");
  const c10::FunctionSchema& schema = method->function().getSchema();
  const auto& arguments = schema.arguments();  // self first
  const auto needed =
      std::count_if(arguments.begin(), arguments.end(), [](const auto& a) { return !a.default_value(); });
  if (arguments.size() < 2 || needed > 2 || !c10::TensorType::get()->isSubtypeOf(*arguments[1].type())) {
    refuse(ErrorKind::kSpec, path, "has a forward that does not take one tensor: " + printable(c10::str(schema)),
           "wrap it in a module whose forward(x) takes the batch alone");
  }
  const c10::TypePtr& returned = schema.returns().at(0).type();
  if (!returned->isSubtypeOf(*c10::TensorType::get()) && !c10::TensorType::get()->isSubtypeOf(*returned)) {
    refuse(ErrorKind::kSpec, path, "has a forward that returns " + returned->annotation_str() + ", not one tensor",
           "wrap it in a module whose forward(x) returns the logits alone");
  }
}

// A submodule that does nothing but hold the script's tensors under their names.
struct Mirror : torch::nn::Module {};

// The very tensors of `script`, not copies.
void mirror(const torch::jit::Module& script, torch::nn::Module& target) {
  for (const auto& item : script.named_parameters(/*recurse=*/false))
    target.register_parameter(item.name, item.value, item.value.requires_grad());
  for (const auto& item : script.named_buffers(/*recurse=*/false)) target.register_buffer(item.name, item.value);
  for (const auto& item : script.named_children()) {
    const auto child = std::make_shared<Mirror>();
    mirror(item.value, *child);
    target.register_module(item.name, child);
  }
}

class ScriptModel : public Model {
 public:
  ScriptModel(std::string path, torch::jit::Module script)
      : path_(std::move(path)), script_(std::move(script)), assigned_(script_) {
    mirror(script_, *this);
  }

  at::Tensor forward(const at::Tensor& inputs) override {
    const c10::IValue output = run(inputs);
    if (!output.isTensor()) {
      refuse(ErrorKind::kSpec, path_, "returned " + output.tagKind() + " from forward, not one tensor",
             "wrap it in a module whose forward(x) returns the logits alone");
    }
    return output.toTensor();
  }

  void train(bool on) override {
    Model::train(on);
    script_.train(on);
  }

  // Tensors that are plain attributes move too, which PyTorch's own `to` leaves behind: written back where they are, as
  // the code refers to the attribute, not to the tensor.
  using Model::to;
  void to(torch::Device device, bool non_blocking) override {
    Model::to(device, non_blocking);
    for (const torch::jit::Module& module : script_.modules()) {
      for (const auto& item : module.named_attributes(/*recurse=*/false)) {
        if (!item.value.isTensor() || item.value.toTensor().device() == device) continue;
        torch::jit::Module(module).setattr(item.name, item.value.toTensor().to(device, non_blocking));
      }
    }
  }

 private:
  c10::IValue run(const at::Tensor& inputs) {
    const torch::jit::GraphOptimizerEnabledGuard eager(false);
    assigned_.lend();
    c10::IValue output;
    try {
      output = script_.forward({inputs});
    } catch (const std::exception& error) {
      rethrow_from_script(error);
    }
    assigned_.take_back(path_);
    return output;
  }

  std::string path_;
  torch::jit::Module script_;
  AssignedBuffers assigned_;
};

}  // namespace

std::shared_ptr<Model> load_torchscript(const std::string& path) {
  torch::jit::Module script = load_file(path);
  check_forward(script, path);
  script.train();  // as if just built, whatever it was when saved
  return std::make_shared<ScriptModel>(path, std::move(script));
}

}  // namespace gputrain

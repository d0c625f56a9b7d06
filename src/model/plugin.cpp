#include "model/plugin.h"

#include <algorithm>
#include <new>
#include <utility>

#include <c10/util/Exception.h>
#include <dlfcn.h>

#include "sys/fs.h"
#include "util/error.h"
#include "util/looks_like.h"
#include "util/text.h"

namespace gputrain {
namespace {

constexpr const char* kWhere = "model.plugin";

[[noreturn]] void refuse(ErrorKind kind, const std::string& path, const std::string& what, const std::string& hint) {
  throw Error(kind, path + " " + what, kWhere, hint);
}

std::string read_library(const std::string& path) {
  try {
    return real_file_system().read(path);
  } catch (const Error& error) {
    throw Error(ErrorKind::kData, error.message, kWhere, "build the plug-in, or correct the path; see examples/plugin");
  }
}

// Read from the file, not asked from the loaded library: one that was built for another LibTorch misses symbols (the
// loader would name one of them, which tells nobody anything), or runs its static initializers against the wrong one.
void check_abi(const std::string& path) {
  const std::string bytes = read_library(path);
  const std::string_view head = std::string_view(bytes).substr(0, 512);
  if (!head.starts_with("\177ELF")) {
    refuse(ErrorKind::kData, path, looks_like(head) + ", not a shared library", "name the plug-in's .so file");
  }
  const size_t begin = bytes.find(GPUTRAIN_PLUGIN_ABI_MARK);
  if (begin == std::string::npos) {
    refuse(ErrorKind::kSpec, path, "is not a gputrain plug-in: it does not define gputrain_plugin_abi",
           "end the plug-in's source with GPUTRAIN_MODEL(YourClass), from gputrain/plugin.h");
  }
  const std::string theirs = bytes.substr(begin, bytes.find('\0', begin) - begin);
  if (theirs != GPUTRAIN_PLUGIN_ABI) {
    refuse(ErrorKind::kSpec, path,
           "was built for another version: it has \"" + printable(theirs) + "\", this gputrain-worker needs \"" +
               GPUTRAIN_PLUGIN_ABI + "\"",
           "build the plug-in again with the header and LibTorch of this gputrain");
  }
}

// RTLD_LOCAL: two plug-ins, or one and us, may use the same names. LibTorch's symbols come from the worker's own.
PluginFactory load_factory(const std::string& path) {
  check_abi(path);
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = ::dlerror();
    refuse(ErrorKind::kSpec, path, std::string("cannot be loaded: ") + (why == nullptr ? "unknown error" : why),
           "link the plug-in against what it uses; LibTorch's libtorch_cpu.so and libc10.so are there already");
  }
  const auto factory = reinterpret_cast<PluginFactory>(::dlsym(library, "gputrain_plugin_make"));
  if (factory == nullptr) {
    refuse(ErrorKind::kSpec, path, "is not a gputrain plug-in: it does not export gputrain_plugin_make",
           "end the plug-in's source with GPUTRAIN_MODEL(YourClass), and let no linker script hide its symbols");
  }
  return factory;
}

std::string first_line(const std::exception& error) {
  const auto* torch = dynamic_cast<const c10::Error*>(&error);
  const std::string text = torch == nullptr ? error.what() : torch->what_without_backtrace();
  return text.substr(0, text.find('\n'));
}

// The plug-in's tensors and submodules under the names they have there. Everything else is passed on to it.
class PluggedModel : public Model {
 public:
  PluggedModel(std::string path, std::shared_ptr<PluginModel> plugin)
      : path_(std::move(path)), plugin_(std::move(plugin)) {
    for (const auto& item : plugin_->named_parameters(/*recurse=*/false))
      register_parameter(item.key(), item.value(), item.value().requires_grad());
    for (const auto& item : plugin_->named_buffers(/*recurse=*/false)) register_buffer(item.key(), item.value());
    for (const auto& item : plugin_->named_children()) register_module(item.key(), item.value());
  }

  at::Tensor forward(const at::Tensor& inputs) override {
    at::Tensor outputs;
    try {
      outputs = plugin_->forward(inputs);
    } catch (const c10::Error&) {
      throw;  // as from a model of our own: shapes that do not fit, out of memory
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::exception& error) {
      refuse(ErrorKind::kSpec, path_, "failed in forward: " + first_line(error), "");
    }
    if (!outputs.defined()) refuse(ErrorKind::kSpec, path_, "returned no tensor from forward", "");
    return outputs;
  }

  void train(bool on) override {
    Model::train(on);
    plugin_->train(on);
  }
  // In place, so that both see it; the plug-in may hold more than it has registered.
  using Model::to;
  void to(torch::Device device, bool non_blocking) override { plugin_->to(device, non_blocking); }

 private:
  std::string path_;
  std::shared_ptr<PluginModel> plugin_;
};

template <typename T>
ModelArg list_of(const Json& list) {
  return list.get<std::vector<T>>();
}

ModelArg argument(const std::string& name, const Json& value) {
  const auto all = [&](auto is) { return std::all_of(value.begin(), value.end(), is); };
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number_integer()) return value.get<int64_t>();
  if (value.is_number()) return value.get<double>();
  if (value.is_string()) return value.get<std::string>();
  if (value.is_array() && all([](const Json& item) { return item.is_number_integer(); }))
    return list_of<int64_t>(value);
  if (value.is_array() && all([](const Json& item) { return item.is_number(); })) return list_of<double>(value);
  if (value.is_array() && all([](const Json& item) { return item.is_string(); })) return list_of<std::string>(value);
  throw Error(
      ErrorKind::kSpec,
      "a plug-in's argument is true, false, a number, text or a list of numbers or texts, got " + dump_line(value),
      "model.args." + name);
}

}  // namespace

ModelArgs plugin_args(const Json& args) {
  std::map<std::string, ModelArg> values;
  for (const auto& [name, value] : args.items()) values.emplace(name, argument(name, value));
  return ModelArgs(std::move(values));
}

std::shared_ptr<Model> load_plugin(const std::string& path, const Json& args) {
  const ModelArgs values = plugin_args(args);
  const PluginFactory factory = load_factory(path);
  std::shared_ptr<PluginModel> plugin;
  try {
    factory(values, plugin);
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    refuse(ErrorKind::kSpec, path, "does not make its model: " + first_line(error), "correct model.args");
  }
  return std::make_shared<PluggedModel>(path, std::move(plugin));
}

}  // namespace gputrain

#pragma once
// A model of your own for gputrain, in a shared library that `model.plugin: libm.so` names.
//
//   #include <gputrain/plugin.h>
//
//   class Mine : public gputrain::PluginModel {
//    public:
//     explicit Mine(const gputrain::ModelArgs& args) : fc(args.integer("in"), args.integer("out", 10)) {
//       register_module("fc", fc);
//     }
//     at::Tensor forward(const at::Tensor& x) override { return fc->forward(x); }
//     torch::nn::Linear fc;
//   };
//   GPUTRAIN_MODEL(Mine)
//
// Built as C++17 or later against the LibTorch of the gputrain-worker that loads it; examples/plugin is a whole one.
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <torch/nn/module.h>
#include <torch/version.h>

// What both sides must agree on, compared as text before any code of the library runs. A change of the classes below
// is another plug-in ABI.
#if !defined(__GLIBCXX__) || !defined(__GXX_ABI_VERSION) || __GXX_ABI_VERSION < 1000 || __GXX_ABI_VERSION >= 2000
#error "gputrain plug-ins are built with g++ or clang++ and libstdc++"
#endif
#define GPUTRAIN_PLUGIN_TEXT_(x) #x
#define GPUTRAIN_PLUGIN_TEXT(x) GPUTRAIN_PLUGIN_TEXT_(x)
#define GPUTRAIN_PLUGIN_ABI_MARK "gputrain plug-in ABI "
#define GPUTRAIN_PLUGIN_ABI                             \
  GPUTRAIN_PLUGIN_ABI_MARK "1, LibTorch " TORCH_VERSION \
                           ", C++ ABI 1, _GLIBCXX_USE_CXX11_ABI=" GPUTRAIN_PLUGIN_TEXT(_GLIBCXX_USE_CXX11_ABI)

namespace gputrain {

// One value of model.args. A list of whole numbers can be read as fractions too; the empty list is any list.
using ModelArg = std::variant<bool, int64_t, double, std::string, std::vector<int64_t>, std::vector<double>,
                              std::vector<std::string>>;

// The values of model.args, read by name. A reader without a default throws for a missing argument, all of them throw
// std::invalid_argument for one of another type. What the constructor never asks for is refused after it: a slip in a
// name is an error, not a default.
class ModelArgs {
 public:
  explicit ModelArgs(std::map<std::string, ModelArg> values = {}) : values_(std::move(values)) {}

  bool flag(const std::string& name) const { return read<bool>(name, "true or false"); }
  int64_t integer(const std::string& name) const { return read<int64_t>(name, "a whole number"); }
  double number(const std::string& name) const { return read<double>(name, "a number"); }
  std::string text(const std::string& name) const { return read<std::string>(name, "text"); }
  std::vector<int64_t> integers(const std::string& name) const {
    return read<std::vector<int64_t>>(name, "a list of whole numbers");
  }
  std::vector<double> numbers(const std::string& name) const {
    return read<std::vector<double>>(name, "a list of numbers");
  }
  std::vector<std::string> texts(const std::string& name) const {
    return read<std::vector<std::string>>(name, "a list of texts");
  }

  bool flag(const std::string& name, bool otherwise) const { return has(name) ? flag(name) : otherwise; }
  int64_t integer(const std::string& name, int64_t otherwise) const { return has(name) ? integer(name) : otherwise; }
  double number(const std::string& name, double otherwise) const { return has(name) ? number(name) : otherwise; }
  std::string text(const std::string& name, const std::string& otherwise) const {
    return has(name) ? text(name) : otherwise;
  }
  std::vector<int64_t> integers(const std::string& name, const std::vector<int64_t>& otherwise) const {
    return has(name) ? integers(name) : otherwise;
  }
  std::vector<double> numbers(const std::string& name, const std::vector<double>& otherwise) const {
    return has(name) ? numbers(name) : otherwise;
  }
  std::vector<std::string> texts(const std::string& name, const std::vector<std::string>& otherwise) const {
    return has(name) ? texts(name) : otherwise;
  }

  // Whether the spec gives the argument; counts as asking for it.
  bool has(const std::string& name) const {
    asked_.insert(name);
    return values_.count(name) != 0;
  }

  // Throws when the spec has an argument that nobody asked for.
  void refuse_unknown() const {
    for (const auto& [name, value] : values_) {
      if (asked_.count(name) != 0) continue;
      std::string known;
      for (const std::string& one : asked_) known += (known.empty() ? "" : ", ") + one;
      throw std::invalid_argument("there is no argument " + name + (known.empty() ? "" : " (there are " + known + ")"));
    }
  }

 private:
  template <typename T>
  T read(const std::string& name, const char* expected) const {
    if (!has(name)) throw std::invalid_argument("argument " + name + " is missing (" + expected + ")");
    const ModelArg& value = values_.at(name);
    if (const T* exact = std::get_if<T>(&value)) return *exact;
    if constexpr (std::is_same_v<T, double>) {
      if (const int64_t* whole = std::get_if<int64_t>(&value)) return static_cast<double>(*whole);
    }
    if (const auto* whole = std::get_if<std::vector<int64_t>>(&value)) {
      if constexpr (std::is_same_v<T, std::vector<double>>) return T(whole->begin(), whole->end());
      if constexpr (std::is_same_v<T, std::vector<std::string>>) {
        if (whole->empty()) return {};
      }
    }
    throw std::invalid_argument("argument " + name + " must be " + expected);
  }

  std::map<std::string, ModelArg> values_;
  mutable std::set<std::string> asked_;
};

// A model: parameters, buffers and submodules are registered in its constructor, as with any torch::nn::Module, and
// drawn from LibTorch's default generator, which gputrain has seeded. Constructed in float32 on the CPU; gputrain moves
// and converts it then. What it throws is shown to the user.
class PluginModel : public torch::nn::Module {
 public:
  using torch::nn::Module::Module;
  // A batch in, one tensor out: [n, classes] for classification. Randomness (dropout) comes from LibTorch's default
  // generator and only where is_training(), so that a resumed run repeats it.
  virtual at::Tensor forward(const at::Tensor& inputs) = 0;
};

using PluginFactory = void (*)(const ModelArgs& args, std::shared_ptr<PluginModel>& model);

}  // namespace gputrain

// Once in a library, at global scope. Type has a constructor that takes `const gputrain::ModelArgs&`.
#define GPUTRAIN_MODEL(Type)                                                                \
  extern "C" __attribute__((visibility("default"), used)) const char gputrain_plugin_abi[]; \
  extern "C" const char gputrain_plugin_abi[] = GPUTRAIN_PLUGIN_ABI;                        \
  extern "C" __attribute__((visibility("default"))) void gputrain_plugin_make(              \
      const ::gputrain::ModelArgs& args, std::shared_ptr<::gputrain::PluginModel>& model) { \
    model = std::make_shared<Type>(args);                                                   \
    args.refuse_unknown();                                                                  \
  }

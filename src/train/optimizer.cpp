#include "train/optimizer.h"

#include <ATen/ATen.h>

#include "train/adam.h"
#include "train/lamb.h"
#include "train/lion.h"
#include "train/sgd.h"
#include "util/error.h"

namespace gputrain {
namespace {

using OptimizerPointer = std::unique_ptr<Optimizer>;

struct Binding {
  const char* name;
  OptimizerPointer (*make)(const NamedArgs&, NamedParameters);
};

constexpr Binding kBindings[] = {
    {"adamw",
     [](const NamedArgs& args, NamedParameters parameters) -> OptimizerPointer {
       return std::make_unique<Adam>(Adam::Decay::kDecoupled, args, std::move(parameters));
     }},
    {"adam",
     [](const NamedArgs& args, NamedParameters parameters) -> OptimizerPointer {
       return std::make_unique<Adam>(Adam::Decay::kAddedToGradient, args, std::move(parameters));
     }},
    {"lamb",
     [](const NamedArgs& args, NamedParameters parameters) -> OptimizerPointer {
       return std::make_unique<Lamb>(args, std::move(parameters));
     }},
    {"lion",
     [](const NamedArgs& args, NamedParameters parameters) -> OptimizerPointer {
       return std::make_unique<Lion>(args, std::move(parameters));
     }},
    {"sgd",
     [](const NamedArgs& args, NamedParameters parameters) -> OptimizerPointer {
       return std::make_unique<Sgd>(args, std::move(parameters));
     }},
};

// One kernel takes all parameters: the fused CUDA ones want them of one type on one device.
void check_uniform(const NamedParameters& parameters) {
  for (const auto& [name, parameter] : parameters) {
    const at::Tensor& first = parameters.front().second;
    if (parameter.device() == first.device() && parameter.scalar_type() == first.scalar_type()) continue;
    throw Error(ErrorKind::kInternal,
                "parameters of different types or devices: " + name + " and " + parameters.front().first);
  }
}

}  // namespace

std::unique_ptr<Optimizer> make_optimizer(const Named& plan, NamedParameters parameters) {
  const NamedArgs args(CatalogKind::kOptimizer, plan.name, plan.args);
  check_uniform(parameters);
  for (const Binding& binding : kBindings) {
    if (plan.name == binding.name) return binding.make(args, std::move(parameters));
  }
  throw Error(ErrorKind::kSpec, "optimizer " + plan.name + " is not built into this program");
}

std::pair<double, double> betas_of(const NamedArgs& args) {
  const std::vector<double> betas = args.numbers("betas");
  if (betas.size() == 2) return {betas[0], betas[1]};
  throw Error(ErrorKind::kSpec, args.name() + ".betas needs two numbers, got " + std::to_string(betas.size()));
}

std::vector<std::string> optimizer_names() {
  std::vector<std::string> names;
  for (const Binding& binding : kBindings) names.emplace_back(binding.name);
  return names;
}

}  // namespace gputrain

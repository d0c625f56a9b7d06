// A plug-in for the unit tests: what an Mlp of two layers with dropout is, and every way in which a plug-in can fail.
#include <stdexcept>

#include <ATen/ATen.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>

#include "gputrain/plugin.h"

namespace {

class Tiny : public gputrain::PluginModel {
 public:
  explicit Tiny(const gputrain::ModelArgs& args)
      : dropout(args.number("dropout", 0.0)),
        fault(args.text("fault", "")),
        fc1(args.integer("in"), args.integers("hidden", {8}).at(0)),
        norm(args.integers("hidden", {8}).at(0)),
        fc2(args.integers("hidden", {8}).at(0), 3) {
    if (fault == "constructor") throw std::runtime_error("no such luck\nwith a second line");
    if (fault == "shape") at::ones({2, 3}).matmul(at::ones({2, 3}));
    scale = register_parameter("scale", at::ones({1}));
    calls = register_buffer("calls", at::zeros({}, at::kLong));
    register_module("fc1", fc1);
    register_module("norm", norm);
    register_module("fc2", fc2);
    for (const at::Tensor& parameter : parameters()) parameter.set_requires_grad(fault != "frozen");
  }

  at::Tensor forward(const at::Tensor& inputs) override {
    if (fault == "forward") throw std::runtime_error("the moon is full");
    if (fault == "nothing") return {};
    const at::Tensor hidden = norm->forward(at::relu(fc1->forward(inputs)));
    return fc2->forward(at::dropout(hidden, dropout, is_training())) * scale;
  }

  double dropout;
  std::string fault;
  torch::nn::Linear fc1;
  torch::nn::BatchNorm1d norm;
  torch::nn::Linear fc2;
  at::Tensor scale, calls;
};

}  // namespace

GPUTRAIN_MODEL(Tiny)

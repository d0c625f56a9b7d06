// bench_optimizer SIDE ARGS_JSON SEED LR THREADS: AdamW steps on the tensors of a gpt, timed on request.
//
// SIDE is gputrain (make_optimizer, as a rank has it) or torch_optim (torch::optim::AdamW). Prints one JSON line when
// it is ready: {tensors, parameters, threads, dtype, sums}; then for each line of stdin, a number of steps, {seconds,
// sums}. `sums` are those of each tensor's elements. Weights are those of SEED, gradients random numbers of SEED and
// the same in each step. So a bench can let several sides take turns and see that they do the same.
#include <chrono>
#include <functional>
#include <iostream>
#include <string>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/optim/adamw.h>

#include "model/model.h"
#include "sys/clock.h"
#include "train/optimizer.h"
#include "util/error.h"

namespace gputrain {
namespace {

constexpr double kWeightDecay = 0.01;

std::function<void()> make_step(const std::string& side, const NamedParameters& parameters, double lr) {
  if (side == "gputrain") {
    const Named adamw{"adamw", {{"lr", lr}, {"weight_decay", kWeightDecay}, {"betas", {0.9, 0.999}}, {"eps", 1e-8}}};
    std::shared_ptr<Optimizer> optimizer = make_optimizer(adamw, parameters);
    return [optimizer] { optimizer->step(1.0); };
  }
  if (side != "torch_optim") throw Error(ErrorKind::kUsage, "SIDE is gputrain or torch_optim, got " + side);
  std::vector<at::Tensor> tensors;
  for (const auto& [name, parameter] : parameters) tensors.push_back(parameter);
  const auto options = torch::optim::AdamWOptions(lr).weight_decay(kWeightDecay);
  auto optimizer = std::make_shared<torch::optim::AdamW>(tensors, options);
  return [optimizer] { optimizer->step(); };
}

Json sums_of(const NamedParameters& parameters) {
  Json sums = Json::array();
  for (const auto& [name, parameter] : parameters) sums.push_back(parameter.detach().sum(at::kDouble).item<double>());
  return sums;
}

Json facts_of(const NamedParameters& parameters) {
  int64_t elements = 0;
  for (const auto& [name, parameter] : parameters) elements += parameter.numel();
  const bool is_float = parameters.front().second.scalar_type() == at::kFloat;
  return {{"tensors", parameters.size()},
          {"parameters", elements},
          {"threads", at::get_num_threads()},
          {"dtype", is_float ? "float32" : "another"},
          {"sums", sums_of(parameters)}};
}

void serve(const NamedParameters& parameters, const std::function<void()>& step) {
  std::cout << dump_line(facts_of(parameters)) << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    const int steps = std::stoi(line);
    const MonotonicTime begin = real_clock().now();
    for (int i = 0; i < steps; ++i) step();
    const double seconds = seconds_between(begin, real_clock().now());
    std::cout << dump_line(Json{{"seconds", seconds}, {"sums", sums_of(parameters)}}) << std::endl;
  }
}

void run(char** arguments) {
  const std::string side = arguments[1];
  const Json args = parse_json(arguments[2], "ARGS_JSON");
  const uint64_t seed = std::stoull(arguments[3]);
  const double lr = std::stod(arguments[4]);
  at::set_num_threads(std::stoi(arguments[5]));
  ModelPlan plan;
  plan.name = "gpt";
  plan.args = args;
  const std::shared_ptr<Model> model = make_model(plan, seed, at::kFloat);
  const NamedParameters parameters = named_parameters_of(*model);
  at::manual_seed(seed);
  for (const auto& [name, parameter] : parameters) parameter.mutable_grad() = at::randn(parameter.sizes());
  serve(parameters, make_step(side, parameters, lr));
}

}  // namespace
}  // namespace gputrain

int main(int count, char** arguments) {
  if (count != 6) {
    std::cerr << "usage: bench_optimizer gputrain|torch_optim ARGS_JSON SEED LR THREADS\n";
    return 2;
  }
  try {
    gputrain::run(arguments);
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
  return 0;
}

#pragma once
// What a user would write by hand: a loop of forward, backward and fused AdamW over the same batches.
#include <cstdint>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "data/loader.h"
#include "model/model.h"
#include "spec/plan.h"

namespace gputrain {

// Classification on one CPU rank in fp32 with AdamW at a constant learning rate, without clipping, evaluation or
// checkpoints; nothing that can stop it. It logs what a step record says of training: loss, learning rate and gradient
// norm, one line a step.
class BareLoop {
 public:
  BareLoop(const RunPlan& plan, const LoaderOptions& loading, const std::string& log);
  void run(int64_t steps);
  const std::vector<double>& losses() const { return losses_; }          // of each step so far
  const std::vector<std::vector<int64_t>>& ids() const { return ids_; }  // the same: samples

 private:
  void step(const Batch& batch);
  void update();

  double lr_, beta1_, beta2_, eps_, weight_decay_;
  std::unique_ptr<Source> source_;
  std::unique_ptr<Loader> loader_;
  std::shared_ptr<Model> model_;
  std::vector<at::Tensor> parameters_, gradients_, exp_avgs_, exp_avg_sqs_, steps_;
  std::ofstream log_;
  std::vector<double> losses_;
  std::vector<std::vector<int64_t>> ids_;
};

}  // namespace gputrain

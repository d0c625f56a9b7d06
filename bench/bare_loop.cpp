#include "bare_loop.h"

#include <ATen/ATen.h>

namespace gputrain {

BareLoop::BareLoop(const RunPlan& plan, const LoaderOptions& loading, const std::string& log)
    : lr_(plan.optimizer.args.at("lr")),
      beta1_(plan.optimizer.args.at("betas").at(0)),
      beta2_(plan.optimizer.args.at("betas").at(1)),
      eps_(plan.optimizer.args.at("eps")),
      weight_decay_(plan.optimizer.args.at("weight_decay")),
      source_(open_source(plan.data.train, "data.train")),
      loader_(make_loader(*source_, plan.data.train_transforms, loading)),
      model_(make_model(plan.model, plan.seed, at::kFloat)),
      log_(log) {
  for (const auto& [name, parameter] : named_parameters_of(*model_)) {
    parameters_.push_back(parameter);
    exp_avgs_.push_back(at::zeros_like(parameter));
    exp_avg_sqs_.push_back(at::zeros_like(parameter));
    steps_.push_back(at::zeros({}));
  }
}

void BareLoop::run(int64_t steps) {
  for (int64_t i = 0; i < steps; ++i) {
    const auto batches = loader_->next_step();
    step(batches->front());
  }
}

void BareLoop::step(const Batch& batch) {
  for (at::Tensor& parameter : parameters_) parameter.mutable_grad().reset();
  const at::Tensor loss = at::cross_entropy_loss(model_->forward(batch.inputs), batch.targets);
  loss.backward();
  gradients_.clear();
  for (const at::Tensor& parameter : parameters_) gradients_.push_back(parameter.grad());
  const double norm = at::linalg_vector_norm(at::stack(at::_foreach_norm(gradients_, 2)), 2).item<double>();
  update();
  ids_.push_back(batch.ids);
  losses_.push_back(loss.item<double>());
  log_ << "{\"step\":" << losses_.size() << ",\"loss\":" << losses_.back() << ",\"lr\":" << lr_
       << ",\"grad_norm\":" << norm << "}\n"
       << std::flush;
}

void BareLoop::update() {
  const at::NoGradGuard no_grad;
  at::_foreach_add_(steps_, 1);
  at::_fused_adamw_(parameters_, gradients_, exp_avgs_, exp_avg_sqs_, /*max_exp_avg_sqs=*/{}, steps_, lr_, beta1_,
                    beta2_, weight_decay_, eps_, /*amsgrad=*/false, /*maximize=*/false);
}

}  // namespace gputrain

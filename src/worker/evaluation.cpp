#include "worker/evaluation.h"

#include <filesystem>
#include <utility>

#include "util/error.h"

namespace gputrain {

std::unique_ptr<Evaluator> make_evaluator(const Foundation& base, const Ema* ema, PhaseMarker& marker,
                                          const StopSource& stop) {
  const RunPlan& plan = base.plan;
  EvaluateOptions options;
  options.transforms = plan.data.val_transforms;
  options.loader = evaluation_loader_options(base);
  options.precision = plan.train.precision;
  options.channels_last = plan.train.channels_last;
  options.device = base.device;
  return std::make_unique<Evaluator>(
      Evaluator::Parts{*base.model, *base.objective, ema, *base.val, *base.vote, marker, stop}, options);
}

Evaluation::Evaluation(Foundation base, const Parts& parts) : base_(std::move(base)), parts_(parts) {
  if (!base_.val) {
    throw Error(ErrorKind::kData, "this configuration has no validation data", "data.val",
                "add data.val to evaluate on");
  }
  if (base_.plan.train.ema_decay > 0)
    ema_ = std::make_unique<Ema>(base_.plan.train.ema_decay, named_parameters_of(*base_.model));
  loaded_ = load_model(base_.comms, *base_.model, ema_.get(), [this] {
    FileSystem& fs = real_file_system();
    const std::filesystem::path wanted(base_.assign.resume.path);
    const bool named = wanted.filename() == "latest" || wanted.filename() == "best";
    return load_checkpoint(fs,
                           named ? resolve_checkpoint(fs, wanted.parent_path(), wanted.filename()) : wanted.string());
  });
  if (!loaded_.has_average) ema_.reset();
  evaluator_ = make_evaluator(base_, ema_.get(), parts_.marker, parts_.stop);
}

Json Evaluation::ready() const {
  Json body;
  body["step"] = loaded_.step;
  body["resumed_from"] = loaded_.path;
  body["samples"] = base_.val->size();
  return body;
}

Json Evaluation::run() {
  const std::optional<Metrics> metrics = evaluator_->run(loaded_.step);
  Json body;
  body["outcome"] = metrics ? "complete" : "stopped";
  body["reason"] = to_string(parts_.stop.reason());
  body["step"] = loaded_.step;
  body["saved_step"] = loaded_.step;
  body["final"] = {{"checkpoint", loaded_.path}};
  if (metrics) {
    for (const auto& [name, value] : metrics->values) body["final"][name] = json_number(value);
    body["final"]["samples"] = metrics->samples;
  }
  return body;
}

}  // namespace gputrain

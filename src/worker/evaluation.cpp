#include "worker/evaluation.h"

#include <filesystem>
#include <utility>

#include "util/error.h"

namespace gputrain {

Evaluation::Evaluation(Foundation base, const Parts& parts) : base_(std::move(base)), parts_(parts) {
  if (!base_.val) {
    throw Error(ErrorKind::kData, "this configuration has no validation data", "data.val",
                "add data.val to evaluate on");
  }
  loaded_ = load_model(base_.comms, *base_.model, [this] {
    FileSystem& fs = real_file_system();
    const std::filesystem::path wanted(base_.assign.resume.path);
    const bool named = wanted.filename() == "latest" || wanted.filename() == "best";
    return load_checkpoint(fs,
                           named ? resolve_checkpoint(fs, wanted.parent_path(), wanted.filename()) : wanted.string());
  });
  evaluator_ =
      std::make_unique<Evaluator>(Evaluator::Parts{*base_.model, *base_.val, *base_.vote, parts_.marker, parts_.stop},
                                  EvaluateOptions{base_.plan.data.val_transforms, evaluation_loader_options(base_),
                                                  base_.plan.train.precision, base_.device});
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
    for (const std::string& name : metric_names()) body["final"][name] = json_number(metric_value(*metrics, name));
    body["final"]["samples"] = metrics->count;
  }
  return body;
}

}  // namespace gputrain

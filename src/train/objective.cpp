#include "train/objective.h"

#include <ATen/ATen.h>

#include "train/objectives.h"
#include "util/error.h"
#include "util/text.h"

namespace gputrain {

std::unique_ptr<Objective> make_objective(const RunPlan& plan, int64_t output_classes) {
  // What a model of the catalog tells apart every source knows, and looks at when it reads.
  const ClassCount classes{output_classes, plan.model.classes().has_value()};
  switch (plan.task) {
    case Task::kClassification:
      if (plan.top_k >= classes.count) {
        throw Error(ErrorKind::kSpec,
                    "the label is always among the " + std::to_string(plan.top_k) + " largest of " +
                        std::to_string(classes.count) + " classes",
                    "evaluate.top_k", "use a smaller top_k, or leave it out");
      }
      return make_classification(plan.loss, plan.top_k, classes);
    case Task::kLanguageModel:
      return make_language_model(plan.loss, classes);
    case Task::kSegmentation:
      return make_segmentation(plan.loss, classes);
    case Task::kRegression:
      return make_regression(plan.loss);
  }
  GP_CHECK(false, "unknown task");
}

int64_t classes_of_output(Task task, at::IntArrayRef output_shape) {
  const auto dims = static_cast<int64_t>(output_shape.size());
  switch (task) {
    case Task::kClassification:
      if (dims == 2) return output_shape[1];
      break;
    case Task::kLanguageModel:
      if (dims == 3) return output_shape[2];
      break;
    case Task::kSegmentation:
      if (dims >= 3) return output_shape[1];
      break;
    case Task::kRegression:
      if (dims >= 1) return dims == 1 ? 1 : output_shape[1];
      break;
  }
  const std::string wanted = task == Task::kClassification  ? "[n, classes]"
                             : task == Task::kLanguageModel ? "[n, length, classes]"
                                                            : "[n, classes, ...]";
  throw Error(ErrorKind::kSpec,
              "the model makes outputs of shape " + c10::str(output_shape) + ", but " + std::string(to_string(task)) +
                  " needs " + wanted,
              "model", "change task, or the model");
}

void refuse_shapes(const std::string& task, const at::Tensor& outputs, const at::Tensor& targets,
                   const std::string& wanted) {
  throw Error(ErrorKind::kSpec,
              task + " needs " + wanted + ", but the model makes " + c10::str(outputs.sizes()) +
                  " and the data have targets " + c10::str(targets.sizes()),
              "model", "change the model, the data or task so that they fit");
}

void check_targets(const at::Tensor& targets, const ClassCount& classes, std::optional<int64_t> ignore_index,
                   const std::vector<int64_t>& ids) {
  if (targets.numel() == 0) return;
  if (!at::isIntegralType(targets.scalar_type(), /*includeBool=*/false)) {
    throw Error(ErrorKind::kSpec, "targets must be integers here, they are " + c10::str(targets.scalar_type()),
                "data.train.targets", "use an integer dtype, or task: regression");
  }
  if (classes.checked_by_source) return;
  const auto [least, most] = targets.aminmax();
  if (!ignore_index && least.item<int64_t>() >= 0 && most.item<int64_t>() < classes.count) return;
  at::Tensor wrong = targets.lt(0).logical_or(targets.ge(classes.count));
  if (ignore_index) wrong = wrong.logical_and(targets.ne(*ignore_index));
  const at::Tensor places = wrong.flatten().nonzero();
  if (places.size(0) == 0) return;
  const auto place = places[0][0].item<int64_t>();
  const int64_t row = place / (targets.numel() / targets.size(0));
  throw Error(ErrorKind::kData,
              "sample " + std::to_string(ids.at(static_cast<size_t>(row))) + " has the target " +
                  std::to_string(targets.flatten()[place].item<int64_t>()) + ", but the model tells " +
                  std::to_string(classes.count) + " classes apart",
              "",
              "targets count from 0: give the model as many classes as the data have, or name a value to leave out as "
              "loss.ignore_index where the task allows it");
}

at::Tensor stack_sums(const std::vector<at::Tensor>& values) {
  std::vector<at::Tensor> doubles;
  doubles.reserve(values.size());
  for (const at::Tensor& value : values) doubles.push_back(value.to(at::kDouble));
  return at::stack(doubles);
}

}  // namespace gputrain

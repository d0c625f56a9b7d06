// The rows of what is trained on what.
#include "spec/field_rows.h"

namespace gputrain {
namespace {

using Type = FieldType;

}  // namespace

FieldRows model_rows() {
  return {
      {.key = "model.name",
       .type = Type::kName,
       .fallback = "none",
       .help = "The model to train: one of ours, unless model.torchscript or model.plugin gives another.",
       .on_resume = OnResume::kSame,
       .words = {"none"},
       .catalog_kind = CatalogKind::kModel},
      {.key = "model.args",
       .type = Type::kArguments,
       .fallback = "{}",
       .help = "Arguments of the model: gputrain explain NAME lists them. A plug-in takes what it says it takes.",
       .on_resume = OnResume::kSame,
       .catalog_kind = CatalogKind::kModel},
      {.key = "model.torchscript",
       .type = Type::kPath,
       .fallback = "none",
       .help = "A module saved by torch.jit.save, trained from the weights it holds.",
       .on_resume = OnResume::kSame,
       .words = {"none"},
       .advanced = true},
      {.key = "model.plugin",
       .type = Type::kPath,
       .fallback = "none",
       .help = "A shared library with a model of your own, made with gputrain/plugin.h: see examples/plugin.",
       .on_resume = OnResume::kSame,
       .words = {"none"},
       .advanced = true},
  };
}

FieldRows first_weight_rows() {
  return {
      {.key = "model.init",
       .type = Type::kPath,
       .fallback = "none",
       .help = "A safetensors file with the first weights (torchvision's and Hugging Face's names). What is loaded, "
               "missing and ignored is listed. Not read when a run is continued.",
       .on_resume = OnResume::kMayChange,
       .words = {"none"}},
      {.key = "model.init_strict",
       .type = Type::kBool,
       .fallback = "true",
       .help = "Refuse a file that lacks tensors of the model or has others. false: these are only listed.",
       .on_resume = OnResume::kMayChange,
       .advanced = true},
      {.key = "model.init_ignore",
       .type = Type::kTextList,
       .fallback = "[]",
       .help =
           "Patterns of tensor names (* and ?) that model.init leaves alone: [fc.*] keeps a new head's own weights.",
       .on_resume = OnResume::kMayChange,
       .advanced = true},
      {.key = "model.freeze",
       .type = Type::kTextList,
       .fallback = "[]",
       .help = "Patterns of parameter names (* and ?) that are not trained.",
       .on_resume = OnResume::kSame},
      {.key = "task",
       .type = Type::kChoice,
       .fallback = "classification",
       .help = "What the model learns; decides targets, loss and metrics.",
       .on_resume = OnResume::kSame,
       .words = {"classification", "language_model", "segmentation", "regression"}},
  };
}

FieldRows data_rows() {
  return {
      {.key = "data.train",
       .type = Type::kSource,
       .fallback = {},
       .help =
           "Samples to train on: {format: NAME, arguments...}. Relative paths are relative to the working directory.",
       .on_resume = OnResume::kSame,
       .catalog_kind = CatalogKind::kFormat},
      {.key = "data.val",
       .type = Type::kSource,
       .fallback = "none",
       .help = "Samples to evaluate on, as data.train.",
       .on_resume = OnResume::kMayChange,
       .words = {"none"},
       .catalog_kind = CatalogKind::kFormat,
       .optional_section = true},
      {.key = "data.transforms.train",
       .type = Type::kTransforms,
       .fallback = "[]",
       .help = "Applied to each training sample, in this order: a list of NAME or {NAME: {arguments...}}.",
       .on_resume = OnResume::kMayChange,
       .catalog_kind = CatalogKind::kTransform},
      {.key = "data.transforms.val",
       .type = Type::kTransforms,
       .fallback = "[]",
       .help = "Applied to each evaluation sample, in this order.",
       .on_resume = OnResume::kMayChange,
       .catalog_kind = CatalogKind::kTransform},
      {.key = "data.mixup",
       .type = Type::kFloat,
       .fallback = "none",
       .help = "Mix each sample with the one before it in its micro-batch; their share is drawn from Beta(x, x) for "
               "each step "
               "(https://arxiv.org/abs/1710.09412). Classification only. With cutmix: one of both, at random.",
       .on_resume = OnResume::kMayChange,
       .words = {"none"},
       .least = 0,
       .above = true,
       .advanced = true},
      {.key = "data.cutmix",
       .type = Type::kFloat,
       .fallback = "none",
       .help =
           "Put a rectangle of the image before it in its micro-batch into each; its area is drawn from Beta(x, x) for "
           "each step (https://arxiv.org/abs/1905.04899). Classification only.",
       .on_resume = OnResume::kMayChange,
       .words = {"none"},
       .least = 0,
       .above = true,
       .advanced = true},
      {.key = "data.tail",
       .type = Type::kChoice,
       .fallback = "use",
       .help = "The short last global batch of an epoch: use it (its loss is divided by its own count) or drop it.",
       .on_resume = OnResume::kSame,
       .words = {"use", "drop"}},
      {.key = "data.workers",
       .type = Type::kInt,
       .fallback = "auto",
       .unit = "threads",
       .help = "Threads that read and decode, for each rank; 0 decodes in the training thread. auto: cores / ranks - "
               "1, from 1 to 4.",
       .words = {"auto"},
       .least = 0,
       .most = 256},
      {.key = "data.prefetch",
       .type = Type::kInt,
       .fallback = "4",
       .unit = "micro-batches",
       .help = "How many decoded micro-batches a rank keeps ready.",
       .least = 1,
       .most = 1024},
      {.key = "data.pin_memory",
       .type = Type::kBool,
       .fallback = "auto",
       .help = "Page-locked host memory for faster copies to a GPU. auto: with GPUs.",
       .words = {"auto"}},
  };
}

FieldRows loss_rows() {
  const auto may_change = OnResume::kMayChange;
  return {
      {.key = "loss.label_smoothing",
       .type = Type::kFloat,
       .fallback = "0",
       .help = "Share of each target that is spread over all classes, as PyTorch's. Classification, language_model; "
               "training only.",
       .on_resume = may_change,
       .least = 0,
       .most = 1,
       .below = true,
       .advanced = true},
      {.key = "loss.ignore_index",
       .type = Type::kInt,
       .fallback = "none",
       .help = "Targets of this value count neither in the loss nor in metrics: padding, unlabelled pixels. "
               "Language_model, segmentation.",
       .on_resume = may_change,
       .words = {"none"},
       .advanced = true},
      {.key = "loss.dice_weight",
       .type = Type::kFloat,
       .fallback = "default",
       .help = "Segmentation: the loss is cross entropy + dice_weight * (1 - Dice). 0 leaves the Dice term out; "
               "default: 1.",
       .on_resume = may_change,
       .words = {"default"},
       .least = 0,
       .most = 1e30,
       .advanced = true},
      {.key = "loss.distance",
       .type = Type::kChoice,
       .fallback = "default",
       .help = "Regression: the loss of a value, averaged over a sample's values. default: mse.",
       .on_resume = may_change,
       .words = {"default", "mse", "l1", "smooth_l1"},
       .advanced = true},
  };
}

}  // namespace gputrain

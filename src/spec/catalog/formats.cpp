#include "spec/catalog/entries.h"

namespace gputrain {
namespace {

CatalogEntry idx() {
  const CatalogArg images = {.name = "images", .type = ArgType::kPath, .help = "idx3-ubyte file, may be gzipped."};
  const CatalogArg labels = {.name = "labels", .type = ArgType::kPath, .help = "idx1-ubyte file, may be gzipped."};
  return {.kind = CatalogKind::kFormat,
          .name = "idx",
          .help = "Grey images and class labels as MNIST distributes them.",
          .args = {images, labels}};
}

CatalogEntry raw() {
  const std::string array =
      "{path, shape of one sample, dtype, offset: bytes before the first sample}, samples one after another.";
  return {
      .kind = CatalogKind::kFormat,
      .name = "raw",
      .help = "Plain arrays in files, memory-mapped.",
      .args = {
          {.name = "inputs", .type = ArgType::kArray, .help = array},
          {.name = "targets",
           .type = ArgType::kArray,
           .help = array + " Class labels: integers of shape []. Segmentation: integers of the image's [height, width] "
                           "or [depth, height, width]. Language_model: integers of the inputs' shape. Regression: "
                           "any."}}};
}

CatalogEntry tokens() {
  const CatalogArg path = {.name = "path", .type = ArgType::kPath, .help = "File of tokens, little-endian."};
  const CatalogArg dtype = {.name = "dtype",
                            .type = ArgType::kChoice,
                            .help = "Type of a token; nanoGPT's train.bin is uint16, text as bytes is uint8.",
                            .words = {"uint8", "uint16", "uint32"}};
  const CatalogArg context = {
      .name = "context", .type = ArgType::kInt, .least = 1, .most = 1 << 30, .help = "Tokens of one sample."};
  const CatalogArg offset = {.name = "offset",
                             .type = ArgType::kInt,
                             .fallback = Json(0),
                             .least = 0,
                             .most = int64_t{1} << 60,
                             .help = "Bytes before the first token."};
  return {.kind = CatalogKind::kFormat,
          .name = "tokens",
          .help = "One long text as tokens, cut into windows one after another; each token's target is the next.",
          .args = {path, dtype, context, offset}};
}

CatalogEntry synthetic() {
  const CatalogArg samples = {
      .name = "samples", .type = ArgType::kInt, .least = 1, .most = int64_t{1} << 48, .help = "Number of samples."};
  const CatalogArg shape = {.name = "shape", .type = ArgType::kIntList, .least = 1, .help = "Shape of one sample."};
  const CatalogArg classes = {.name = "num_classes",
                              .type = ArgType::kInt,
                              .least = 1,
                              .help = "Labels, tokens and mask values are below it; the number of regression values."};
  const CatalogArg targets = {.name = "targets",
                              .type = ArgType::kChoice,
                              .fallback = Json("class"),
                              .help = "A class; tokens, whose inputs are the tokens before; a mask of classes; values.",
                              .words = {"class", "tokens", "mask", "values"}};
  return {.kind = CatalogKind::kFormat,
          .name = "synthetic",
          .help = "Random samples and targets, a function of the sample's number, for smoke runs and benchmarks.",
          .args = {samples, shape, classes, targets}};
}

}  // namespace

std::vector<CatalogEntry> format_entries() {
  return {idx(), raw(), tokens(), synthetic()};
}

std::vector<CatalogEntry> metric_entries() {
  const auto metric = [](std::string name, std::string help, bool larger, std::vector<std::string> tasks) {
    return CatalogEntry{.kind = CatalogKind::kMetric,
                        .name = std::move(name),
                        .help = std::move(help),
                        .larger_is_better = larger,
                        .tasks = std::move(tasks)};
  };
  const std::string classification = "classification", text = "language_model", masks = "segmentation",
                    values = "regression";
  return {metric("accuracy", "Share of samples (tokens, pixels) whose largest logit is the label's.", true,
                 {classification, text, masks}),
          metric("top_k_accuracy", "Share of samples with the label among the evaluate.top_k largest logits.", true,
                 {classification}),
          metric("loss", "Mean loss of a sample (of a token).", false, {classification, text, masks, values}),
          metric("perplexity", "exp of the mean loss of a token.", false, {text}),
          metric("miou", "Intersection over union of each class, averaged over the classes that occur.", true, {masks}),
          metric("dice", "Dice score of each class, averaged over the classes that occur.", true, {masks}),
          metric("mae", "Mean absolute error of a value.", false, {values}),
          metric("rmse", "Root of the mean squared error of a value.", false, {values})};
}

}  // namespace gputrain

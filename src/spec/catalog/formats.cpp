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
  return {.kind = CatalogKind::kFormat,
          .name = "raw",
          .help = "Plain arrays in files, memory-mapped.",
          .args = {{.name = "inputs", .type = ArgType::kArray, .help = array},
                   {.name = "targets",
                    .type = ArgType::kArray,
                    .help = array + " Class labels: shape [] and an integer dtype."}}};
}

CatalogEntry synthetic() {
  const CatalogArg samples = {
      .name = "samples", .type = ArgType::kInt, .least = 1, .most = int64_t{1} << 48, .help = "Number of samples."};
  const CatalogArg shape = {.name = "shape", .type = ArgType::kIntList, .least = 1, .help = "Shape of one sample."};
  const CatalogArg classes = {.name = "num_classes", .type = ArgType::kInt, .least = 1, .help = "Labels are below it."};
  return {.kind = CatalogKind::kFormat,
          .name = "synthetic",
          .help = "Random floats and labels made up from the seed, for smoke runs and benchmarks.",
          .args = {samples, shape, classes}};
}

}  // namespace

std::vector<CatalogEntry> format_entries() {
  return {idx(), raw(), synthetic()};
}

std::vector<CatalogEntry> metric_entries() {
  return {{.kind = CatalogKind::kMetric,
           .name = "accuracy",
           .help = "Share of samples whose largest logit is the label's."},
          {.kind = CatalogKind::kMetric, .name = "loss", .help = "Mean loss of a sample.", .larger_is_better = false}};
}

}  // namespace gputrain

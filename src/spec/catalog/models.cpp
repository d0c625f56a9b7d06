#include "spec/catalog/entries.h"

namespace gputrain {
namespace {

constexpr double kMostElements = 1 << 30;  // of one dimension of a layer: products of two stay far from overflow

CatalogArg num_classes(int64_t fallback) {
  return {.name = "num_classes",
          .type = ArgType::kInt,
          .fallback = Json(fallback),
          .least = 1,
          .most = kMostElements,
          .help = "Number of outputs."};
}

CatalogArg in_channels(int64_t fallback) {
  return {.name = "in_channels",
          .type = ArgType::kInt,
          .fallback = Json(fallback),
          .least = 1,
          .most = kMostElements,
          .help = "Channels of an input image."};
}

CatalogArg dropout() {
  return {.name = "dropout",
          .type = ArgType::kFloat,
          .fallback = Json(0.0),
          .least = 0,
          .most = 1,
          .help = "Probability of dropping an activation after each hidden linear layer's relu.",
          .below = true};
}

// The smoke run's images are smaller than ImageNet's 224 x 224, so that eight of them pass a CPU in a second.
CatalogEntry resnet(std::string name, std::string blocks) {
  return {.kind = CatalogKind::kModel,
          .name = std::move(name),
          .help = "Residual network (" + blocks + ") as torchvision's, for images of any size.",
          .args = {in_channels(3), num_classes(1000)},
          .has_batch_norm = true,
          .sample_shape = {3, 64, 64}};
}

}  // namespace

std::vector<CatalogEntry> model_entries() {
  const CatalogArg in_features = {.name = "in_features",
                                  .type = ArgType::kInt,
                                  .fallback = Json(784),
                                  .least = 1,
                                  .most = kMostElements,
                                  .help = "Elements of one input sample, flattened."};
  const CatalogArg hidden = {.name = "hidden",
                             .type = ArgType::kIntList,
                             .fallback = Json::array({256, 256}),
                             .least = 1,
                             .most = kMostElements,
                             .help = "Widths of the hidden layers."};
  return {{.kind = CatalogKind::kModel,
           .name = "mlp",
           .help = "Linear layers with relu between them, on the flattened sample.",
           .args = {in_features, hidden, num_classes(10), dropout()},
           .has_dropout = true,
           .sample_shape = {}},
          {.kind = CatalogKind::kModel,
           .name = "small_cnn",
           .help = "Two 3x3 convolutions with max-pooling and two linear layers, for 28x28 images.",
           .args = {in_channels(1), num_classes(10), dropout()},
           .has_dropout = true,
           .sample_shape = {1, 28, 28}},
          resnet("resnet18", "18 layers, basic blocks"),
          resnet("resnet50", "50 layers, bottleneck blocks")};
}

}  // namespace gputrain

#include "spec/catalog/entries.h"

namespace gputrain {
namespace {

constexpr double kMostElements = 1 << 30;  // of one dimension of a layer: products of two stay far from overflow
constexpr double kMostWidth = 1 << 16;     // that a model multiplies once more

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

CatalogArg dropout(const std::string& place) {
  return {.name = "dropout",
          .type = ArgType::kFloat,
          .fallback = Json(0.0),
          .least = 0,
          .most = 1,
          .help = "Probability of dropping an activation " + place + ".",
          .below = true};
}

CatalogEntry vision_transformer(std::string name, std::string size) {
  const CatalogArg image_size = {.name = "image_size",
                                 .type = ArgType::kInt,
                                 .fallback = Json(224),
                                 .least = 16,
                                 .most = 1 << 14,
                                 .help = "Height and width of an image, in whole patches.",
                                 .multiple_of = 16};
  return {.kind = CatalogKind::kModel,
          .name = std::move(name),
          .help = "Vision transformer (" + size + ") as torchvision's, patches of 16 x 16 of 3-channel images.",
          .args = {image_size, num_classes(1000), dropout("after each layer and on the embedding")},
          .has_dropout = true,
          .sample_shape = {3, 224, 224}};
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

CatalogArg of_size(std::string name, std::string what) {
  return {.name = std::move(name),
          .type = ArgType::kInt,
          .fallback = Json("auto"),
          .least = 1,
          .most = kMostWidth,
          .help = what + "; auto: the size's. A custom size needs it.",
          .words = {"auto"}};
}

CatalogArg count(std::string name, int64_t fallback, std::string help) {
  return {.name = std::move(name),
          .type = ArgType::kInt,
          .fallback = Json(fallback),
          .least = 1,
          .most = kMostElements,
          .help = std::move(help)};
}

// The smoke run's windows are shorter than the context, as the images of resnet().
CatalogEntry gpt() {
  const CatalogArg size = {.name = "size",
                           .type = ArgType::kChoice,
                           .fallback = Json("gpt2"),
                           .help = "One of GPT-2's (124, 355, 774 and 1558 million parameters), or custom.",
                           .words = {"custom", "gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl"}};
  return {
      .kind = CatalogKind::kModel,
      .name = "gpt",
      .help = "GPT-2 as Hugging Face's GPT2LMHeadModel, its token embedding shared with the output.",
      .args = {size, of_size("layers", "Transformer blocks"), of_size("heads", "Attention heads, which divide width"),
               of_size("width", "Width of the residual stream"),
               count("context", 1024, "Most tokens that the model sees at once."),
               count("vocab_size", 50257, "Number of different tokens."),
               dropout("on the embedding, in attention and after each branch")},
      .has_dropout = true,
      .output = ModelOutput::kTokens,
      .sample_shape = {64}};
}

CatalogEntry unet(std::string name, std::string input, int64_t channels, std::vector<int64_t> sample_shape) {
  const CatalogArg width = {.name = "width",
                            .type = ArgType::kInt,
                            .fallback = Json(32),
                            .least = 1,
                            .most = kMostWidth,
                            .help = "Channels of the first level; each level has twice the one above."};
  const CatalogArg levels = {.name = "levels",
                             .type = ArgType::kInt,
                             .fallback = Json(4),
                             .least = 1,
                             .most = 8,
                             .help = "How often the size is halved: sizes are multiples of 2^levels."};
  const CatalogArg norm = {.name = "norm",
                           .type = ArgType::kChoice,
                           .fallback = Json("instance"),
                           .help = "Normalisation: instance does not depend on the batch.",
                           .words = {"instance", "batch"}};
  return {.kind = CatalogKind::kModel,
          .name = std::move(name),
          .help = "U-Net for segmentation of " + input + ": double convolutions, transposed ones upwards.",
          .args = {in_channels(channels), num_classes(2), width, levels, norm},
          .has_batch_norm = true,  // with norm: batch
          .output = ModelOutput::kMask,
          .deterministic_on_gpus = sample_shape.size() < 4,  // max_pool3d has no such backward
          .sample_shape = std::move(sample_shape)};
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
  const CatalogArg drop = dropout("after each hidden linear layer's relu");
  return {{.kind = CatalogKind::kModel,
           .name = "mlp",
           .help = "Linear layers with relu between them, on the flattened sample.",
           .args = {in_features, hidden, num_classes(10), drop},
           .has_dropout = true,
           .sample_shape = {}},
          {.kind = CatalogKind::kModel,
           .name = "small_cnn",
           .help = "Two 3x3 convolutions with max-pooling and two linear layers, for 28x28 images.",
           .args = {in_channels(1), num_classes(10), drop},
           .has_dropout = true,
           .sample_shape = {1, 28, 28}},
          resnet("resnet18", "18 layers, basic blocks"),
          resnet("resnet34", "34 layers, basic blocks"),
          resnet("resnet50", "50 layers, bottleneck blocks"),
          resnet("resnet101", "101 layers, bottleneck blocks"),
          vision_transformer("vit_b_16", "12 layers, 12 heads, width 768"),
          vision_transformer("vit_s_16", "12 layers, 6 heads, width 384"),
          gpt(),
          unet("unet2d", "images", 3, {3, 64, 64}),
          unet("unet3d", "volumes", 1, {1, 32, 32, 32})};
}

}  // namespace gputrain

#include "spec/catalog/entries.h"

namespace gputrain {

std::vector<CatalogEntry> transform_entries() {
  const auto kind = CatalogKind::kTransform;
  const CatalogArg mean = {.name = "mean",
                           .type = ArgType::kFloatList,
                           .help = "Subtracted, one number a channel (after to_tensor: of 0 to 1)."};
  const CatalogArg std_deviation = {.name = "std",
                                    .type = ArgType::kFloatList,
                                    .least = 0,
                                    .above = true,
                                    .help = "Divided by, one number a channel."};
  const CatalogArg p = {.name = "p",
                        .type = ArgType::kFloat,
                        .fallback = Json(0.5),
                        .least = 0,
                        .most = 1,
                        .help = "Probability of flipping a sample."};
  const CatalogArg size = {
      .name = "size", .type = ArgType::kInt, .least = 1, .help = "Height and width of the crop, pixels."};
  const CatalogArg padding = {.name = "padding",
                              .type = ArgType::kInt,
                              .fallback = Json(0),
                              .least = 0,
                              .help = "Zeros put around the image first, pixels on each side."};
  return {{.kind = kind, .name = "random_horizontal_flip", .help = "Mirrors left and right at random.", .args = {p}},
          {.kind = kind, .name = "random_crop", .help = "Cuts a square at a random place.", .args = {size, padding}},
          {.kind = kind, .name = "to_tensor", .help = "8-bit pixels to floats from 0 to 1."},
          {.kind = kind, .name = "normalize", .help = "(x - mean) / std by channel.", .args = {mean, std_deviation}}};
}

}  // namespace gputrain

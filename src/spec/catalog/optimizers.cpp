#include "spec/catalog/entries.h"

namespace gputrain {
namespace {

CatalogArg lr() {
  return {.name = "lr",
          .type = ArgType::kFloat,
          .least = 0,
          .above = true,
          .help = "Learning rate at schedule factor 1. Not scaled by the number of ranks: global_batch decides."};
}

CatalogArg weight_decay(double fallback, std::string help) {
  return {
      .name = "weight_decay", .type = ArgType::kFloat, .fallback = Json(fallback), .least = 0, .help = std::move(help)};
}

CatalogEntry adamw() {
  const CatalogArg betas = {.name = "betas",
                            .type = ArgType::kFloatList,
                            .fallback = Json::array({0.9, 0.999}),
                            .least = 0,
                            .most = 1,
                            .help = "Decay of the running mean of the gradient and of its square.",
                            .below = true,
                            .length = 2};
  const CatalogArg eps = {.name = "eps",
                          .type = ArgType::kFloat,
                          .fallback = Json(1e-8),
                          .least = 0,
                          .above = true,
                          .help = "Added to the denominator."};
  return {
      .kind = CatalogKind::kOptimizer,
      .name = "adamw",
      .help = "Adam with decoupled weight decay, as torch.optim.AdamW.",
      .args = {lr(), weight_decay(0.01, "Each update first multiplies weights by 1 - lr * weight_decay."), betas, eps}};
}

CatalogEntry sgd() {
  const CatalogArg momentum = {.name = "momentum",
                               .type = ArgType::kFloat,
                               .fallback = Json(0.0),
                               .least = 0,
                               .most = 1,
                               .help = "Weight of the previous update direction.",
                               .below = true};
  const CatalogArg nesterov = {.name = "nesterov",
                               .type = ArgType::kBool,
                               .fallback = Json(false),
                               .help = "Nesterov's form of momentum; needs momentum above 0."};
  return {.kind = CatalogKind::kOptimizer,
          .name = "sgd",
          .help = "Stochastic gradient descent, as torch.optim.SGD.",
          .args = {lr(), momentum, nesterov, weight_decay(0.0, "Times the weight, added to the gradient.")}};
}

}  // namespace

std::vector<CatalogEntry> optimizer_entries() {
  return {adamw(), sgd()};
}

std::vector<CatalogEntry> schedule_entries() {
  const auto kind = CatalogKind::kSchedule;
  const CatalogArg final_factor = {.name = "final_factor",
                                   .type = ArgType::kFloat,
                                   .fallback = Json(0.0),
                                   .least = 0,
                                   .help = "Factor of the learning rate at the end of training."};
  return {
      {.kind = kind, .name = "constant", .help = "Factor 1 after the warm-up."},
      {.kind = kind, .name = "linear", .help = "From 1 to final_factor in a straight line.", .args = {final_factor}},
      {.kind = kind,
       .name = "cosine",
       .help = "From 1 to final_factor along half a cosine wave.",
       .args = {final_factor}}};
}

}  // namespace gputrain

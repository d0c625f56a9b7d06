#include "spec/catalog/entries.h"

namespace gputrain {
namespace {

constexpr double kLargest = 1e30;  // far from the end of float

CatalogArg lr() {
  return {.name = "lr",
          .type = ArgType::kFloat,
          .least = 0,
          .most = kLargest,
          .above = true,
          .help = "Learning rate at schedule factor 1. Not scaled by the number of ranks: global_batch decides."};
}

CatalogArg weight_decay(double fallback, std::string help) {
  return {.name = "weight_decay",
          .type = ArgType::kFloat,
          .fallback = Json(fallback),
          .least = 0,
          .most = kLargest,
          .help = std::move(help)};
}

CatalogArg betas(double first, double second, std::string help) {
  return {.name = "betas",
          .type = ArgType::kFloatList,
          .fallback = Json::array({first, second}),
          .least = 0,
          .most = 1,
          .help = std::move(help),
          .below = true,
          .length = 2};
}

CatalogArg eps(double fallback) {
  return {.name = "eps",
          .type = ArgType::kFloat,
          .fallback = Json(fallback),
          .least = 0,
          .above = true,
          .help = "Added to the denominator."};
}

constexpr const char* kMoments = "Decay of the running mean of the gradient and of its square.";
constexpr const char* kDecoupled = "Each update first multiplies weights by 1 - lr * weight_decay.";

CatalogEntry optimizer(std::string name, std::string help, std::vector<CatalogArg> args) {
  return {.kind = CatalogKind::kOptimizer, .name = std::move(name), .help = std::move(help), .args = std::move(args)};
}

CatalogEntry adamw() {
  return optimizer("adamw", "Adam with decoupled weight decay, as torch.optim.AdamW.",
                   {lr(), weight_decay(0.01, kDecoupled), betas(0.9, 0.999, kMoments), eps(1e-8)});
}

CatalogEntry adam() {
  return optimizer(
      "adam", "Adam as torch.optim.Adam.",
      {lr(), weight_decay(0.0, "Times the weight, added to the gradient."), betas(0.9, 0.999, kMoments), eps(1e-8)});
}

CatalogEntry lamb() {
  return optimizer("lamb", "Adam's update scaled to the norm of each weight tensor, for large batches.",
                   {lr(), weight_decay(0.01, "Times the weight, added to the update before it is scaled."),
                    betas(0.9, 0.999, kMoments), eps(1e-6)});
}

CatalogEntry lion() {
  return optimizer("lion", "The sign of the running mean of the gradient; lr about a tenth of AdamW's.",
                   {lr(), weight_decay(0.0, kDecoupled),
                    betas(0.9, 0.99, "Weight of the running mean in the update, and its decay.")});
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
  return optimizer("sgd", "Stochastic gradient descent, as torch.optim.SGD.",
                   {lr(), momentum, nesterov, weight_decay(0.0, "Times the weight, added to the gradient.")});
}

}  // namespace

std::vector<CatalogEntry> optimizer_entries() {
  return {adamw(), adam(), sgd(), lamb(), lion()};
}

}  // namespace gputrain

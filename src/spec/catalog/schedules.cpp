#include "spec/catalog/entries.h"

namespace gputrain {
namespace {

CatalogArg final_factor(std::string help = "Factor of the learning rate at the end of training.") {
  return {.name = "final_factor", .type = ArgType::kFloat, .fallback = Json(0.0), .least = 0, .help = std::move(help)};
}

CatalogArg gamma() {
  return {.name = "gamma",
          .type = ArgType::kFloat,
          .fallback = Json(0.1),
          .least = 0,
          .above = true,
          .help = "What the learning rate is multiplied by."};
}

// A factor above 1 that something is divided by.
CatalogArg divisor(std::string name, double fallback, std::string help) {
  return {.name = std::move(name),
          .type = ArgType::kFloat,
          .fallback = Json(fallback),
          .least = 1,
          .help = std::move(help)};
}

CatalogArg length(std::string name, std::string help, std::optional<Json> fallback = std::nullopt) {
  return {.name = std::move(name),
          .type = ArgType::kLength,
          .fallback = std::move(fallback),
          .above = true,
          .help = std::move(help)};
}

CatalogArg choice(std::string name, std::vector<std::string> words, std::string help) {
  return {.name = std::move(name),
          .type = ArgType::kChoice,
          .fallback = Json(words.front()),
          .help = std::move(help),
          .words = words};
}

CatalogEntry entry(std::string name, std::string help, std::vector<CatalogArg> args) {
  return {.kind = CatalogKind::kSchedule, .name = std::move(name), .help = std::move(help), .args = std::move(args)};
}

CatalogEntry inverse_sqrt() {
  CatalogArg timescale =
      length("timescale", "Where the curve of 1/sqrt begins; auto: the warm-up, or 10000 steps.", Json("auto"));
  timescale.words = {"auto"};
  return entry("inverse_sqrt", "Falls as 1 / sqrt(updates) from the end of the warm-up, as Hugging Face's.",
               {timescale});
}

CatalogEntry one_cycle() {
  const CatalogArg peak = {.name = "peak",
                           .type = ArgType::kFloat,
                           .fallback = Json(0.3),
                           .least = 0,
                           .most = 1,
                           .above = true,
                           .help = "Where the peak is, as a part of the run (pct_start of torch.optim's OneCycleLR).",
                           .below = true};
  return entry("one_cycle",
               "Rises from 1 / start_divisor to 1 and falls to the end, as torch.optim's OneCycleLR without momentum.",
               {peak, divisor("start_divisor", 25, "The first factor is 1 / start_divisor (div_factor)."),
                divisor("final_divisor", 10000, "The last factor is the first / final_divisor (final_div_factor)."),
                choice("shape", {"cosine", "linear"}, "Curve of both parts (anneal_strategy).")});
}

}  // namespace

std::vector<CatalogEntry> schedule_entries() {
  const CatalogArg power = {.name = "power",
                            .type = ArgType::kFloat,
                            .fallback = Json(1.0),
                            .least = 0,
                            .above = true,
                            .help = "Of the part of the decay that is left."};
  const CatalogArg milestones = {.name = "milestones",
                                 .type = ArgType::kLengthList,
                                 .above = true,
                                 .help = "From the start of training, growing: [30 epochs, 60 epochs, 80 epochs]."};
  const CatalogArg multiplier = {.name = "multiplier",
                                 .type = ArgType::kInt,
                                 .fallback = Json(1),
                                 .least = 1,
                                 .most = 1000,
                                 .help = "Each period is that many times as long as the one before (T_mult)."};
  return {
      entry("constant", "Factor 1 after the warm-up.", {}),
      entry("linear", "From 1 to final_factor in a straight line.", {final_factor()}),
      entry("cosine", "From 1 to final_factor along half a cosine wave.", {final_factor()}),
      entry("cosine_restarts", "Cosine waves from 1 to final_factor, each from the top again (SGDR).",
            {length("first", "Length of the first period, which begins after the warm-up (T_0)."), multiplier,
             final_factor("Factor at the end of each period.")}),
      entry("step", "Times gamma after every such length, counted from the start of training.",
            {length("every", "As in 30 epochs."), gamma()}),
      entry("multistep", "Times gamma at each milestone.", {milestones, gamma()}),
      entry("polynomial", "From 1 to final_factor as a power of the part that is left.", {power, final_factor()}),
      inverse_sqrt(),
      one_cycle(),
      entry("wsd", "Warm-up, stable, decay: 1 until the last part of the run, then down to final_factor.",
            {length("decay", "Length of the last part: 10%, 2 epochs, 5000 steps."), final_factor(),
             choice("shape", {"linear", "cosine", "sqrt"}, "Curve of the last part; sqrt: 1 - sqrt(position).")}),
  };
}

}  // namespace gputrain

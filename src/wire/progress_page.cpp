#include "wire/progress_page.h"

#include <iterator>

namespace gputrain {
namespace {

// In the order of Phase.
constexpr std::string_view kPhases[] = {"set-up",    "data-wait",  "forward", "backward", "all-reduce",
                                        "optimizer", "evaluation", "writing", "commit",   "idle"};
static_assert(std::size(kPhases) == static_cast<size_t>(Phase::kIdle) + 1);

}  // namespace

std::string_view to_string(Phase phase) {
  const auto index = static_cast<size_t>(phase);
  return index < std::size(kPhases) ? kPhases[index] : "unknown";  // a page may hold anything
}

bool phase_from(std::string_view word, Phase* phase) {
  for (size_t i = 0; i < std::size(kPhases); ++i) {
    if (kPhases[i] != word) continue;
    *phase = static_cast<Phase>(i);
    return true;
  }
  return false;
}

ProgressSnapshot snapshot(const ProgressPage& page) {
  constexpr auto order = std::memory_order_relaxed;
  return {page.step.load(order), std::string(to_string(static_cast<Phase>(page.phase.load(order)))),
          page.collectives.load(order)};
}

}  // namespace gputrain

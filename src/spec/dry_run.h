#pragma once
// What `launch --dry-run` shows: who runs where with how many samples, and where each value came from.
#include <string>
#include <vector>

#include "spec/plan.h"
#include "spec/resolve.h"
#include "spec/spec.h"

namespace gputrain {

// Text: a table of ranks (host, device, threads, samples and micro-batches of a full global batch), notices, a table of
// settings (key, value, origin).
std::string render_dry_run(const RunPlan& plan, const Spec& spec, const std::vector<Notice>& notices);

// The same for --json: {plan, ranks: [...], notices: [...], settings: [{key, value, origin}]}.
Json dry_run_json(const RunPlan& plan, const Spec& spec, const std::vector<Notice>& notices);

// Only a table of settings, "auto" followed by what it means here: those worth reading before the first step, so
// without what was left at a default that says all.
std::string render_chosen_settings(const Spec& spec, const RunPlan& plan);

}  // namespace gputrain

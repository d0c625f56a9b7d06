#pragma once
// The transforms that a spec may name, checked against the source and fused at set-up.
//
// Values are torchvision's, bit for bit: to_tensor is u8 / 255 in the float type; normalize subtracts, then divides, in
// that type with mean and std rounded to it. Of the random ones only the distribution is torchvision's: each draws from
// a generator keyed by (seed, epoch, sample id) and its place in the list, so neither ranks, workers nor restarts
// change what happens to a sample.
#include <memory>
#include <string>
#include <vector>

#include "data/pipeline.h"
#include "spec/plan.h"

namespace gputrain {

// Throws Error(kSpec): unknown transform or argument, a bad value, or a list that does not fit `input` (uint8 without
// to_tensor, ...).
std::unique_ptr<Pipeline> make_pipeline(const std::vector<Named>& transforms, const SampleSpec& input,
                                        const TransformOptions& options);

// The transforms that make_pipeline knows: the catalog's names.
std::vector<std::string> transform_names();

}  // namespace gputrain

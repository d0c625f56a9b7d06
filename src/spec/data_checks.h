#pragma once
// What can be said of samples without opening a file: their shape through the transforms, and whether the model takes
// it. Internal to spec.
#include <optional>
#include <string>
#include <vector>

#include "spec/node.h"
#include "spec/spec.h"

namespace gputrain {

// Shape of one sample after the transforms, as far as the spec alone tells.
struct SampleShape {
  std::optional<std::vector<int64_t>> dims;  // all of it
  std::optional<int64_t> channels;           // of an image [C, H, W]
};

// `role` is "train" or "val". Nothing is known when data.<role> is absent or could not be read.
SampleShape sample_shape(const Spec& spec, const std::string& role);

void check_data(const Spec& spec, std::vector<Problem>* problems);

}  // namespace gputrain

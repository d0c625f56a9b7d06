#pragma once
// Which parameters share an all-reduce: [[parameter index, ...], ...], in the order in which the buckets are reduced.
#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "util/json.h"

namespace gputrain {

using BucketLayout = std::vector<std::vector<size_t>>;

// DDP's assignment: parameters in model order, one bucket at a time until `limits` (bytes; the last one repeats) is
// reached, by dtype and device, then reversed since backward produces the last parameters' gradients first.
BucketLayout compute_layout(const std::vector<at::Tensor>& parameters, const std::vector<size_t>& limits);

Json layout_to_json(const BucketLayout& layout);

// A saved layout. Throws Error(kCheckpoint) unless it holds every parameter exactly once, and one dtype and device a
// bucket.
BucketLayout layout_from_json(const Json& json, const std::vector<at::Tensor>& parameters);

}  // namespace gputrain

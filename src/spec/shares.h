#pragma once
// Batch arithmetic (design section 6.1): pure functions, shared by --dry-run and the training loop.
//
// A global batch of C samples (C = G, or fewer in the last window of an epoch) is cut into contiguous shares, one a
// rank; a share is cut into micro-batches. Ranks may have different numbers of micro-batches, even none.
#include <cstdint>
#include <optional>

namespace gputrain {

struct Range {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
  bool operator==(const Range&) const = default;
};

// Rank r's samples of a global batch of `count`: [floor(r*count/world), floor((r+1)*count/world)).
Range share_of(int64_t count, int rank, int world_size);
int64_t largest_share(int64_t count, int world_size);  // ceil(count / world)

// Number of micro-batches of a share; 0 for an empty share. micro_batch >= 1.
int64_t micro_batch_count(int64_t share, int64_t micro_batch);
// The i-th micro-batch of a share, relative to the share's begin.
Range micro_batch_range(int64_t share, int64_t micro_batch, int64_t i);

// Global batches in an epoch of `samples`: ceil (tail: use) or floor (tail: drop).
int64_t steps_per_epoch(int64_t samples, int64_t global_batch, bool drop_tail);
// Positions of epoch-local step b: [b*G, min((b+1)*G, samples)).
Range window_of(int64_t samples, int64_t global_batch, int64_t step_in_epoch);

// Where a rank passes a single sample through the model. Full windows are all alike, so the first and the last of an
// epoch's `steps` steps tell; steps >= 1, micro_batch 0 = the rank's whole share.
struct EpochCut {
  int64_t samples = 0;
  int64_t global_batch = 1;
  int64_t micro_batch = 0;
  int world_size = 1;
  int64_t steps = 1;
};
struct LoneSample {
  int64_t step = 0;  // in the epoch, from 0
  int rank = 0;
};
std::optional<LoneSample> find_lone_sample(const EpochCut& cut);

}  // namespace gputrain

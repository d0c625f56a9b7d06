#include "spec/shares.h"

#include <algorithm>

#include "util/error.h"

namespace gputrain {

Range share_of(int64_t count, int rank, int world_size) {
  GP_CHECK(count >= 0 && world_size >= 1 && rank >= 0 && rank < world_size, "no such share");
  // 128 bits: rank * count overflows 64 for absurd but legal batches.
  auto bound = [&](int r) { return static_cast<int64_t>(static_cast<__int128>(r) * count / world_size); };
  return {bound(rank), bound(rank + 1)};
}

int64_t largest_share(int64_t count, int world_size) {
  return count / world_size + (count % world_size != 0);
}

int64_t micro_batch_count(int64_t share, int64_t micro_batch) {
  GP_CHECK(share >= 0 && micro_batch >= 1, "no such micro-batch");
  return share / micro_batch + (share % micro_batch != 0);
}

Range micro_batch_range(int64_t share, int64_t micro_batch, int64_t i) {
  GP_CHECK(i >= 0 && i < micro_batch_count(share, micro_batch), "no such micro-batch");
  return {i * micro_batch, std::min((i + 1) * micro_batch, share)};
}

int64_t steps_per_epoch(int64_t samples, int64_t global_batch, bool drop_tail) {
  GP_CHECK(samples >= 0 && global_batch >= 1, "no such epoch");
  return samples / global_batch + (!drop_tail && samples % global_batch != 0);
}

Range window_of(int64_t samples, int64_t global_batch, int64_t step_in_epoch) {
  GP_CHECK(step_in_epoch >= 0 && step_in_epoch < steps_per_epoch(samples, global_batch, false),
           "no such step in an epoch");
  const int64_t begin = step_in_epoch * global_batch;
  return {begin, std::min(begin + global_batch, samples)};
}

std::optional<LoneSample> find_lone_sample(const EpochCut& cut) {
  for (const int64_t step : {int64_t{0}, cut.steps - 1}) {
    const int64_t window = window_of(cut.samples, cut.global_batch, step).size();
    for (int rank = 0; rank < cut.world_size; ++rank) {
      const int64_t share = share_of(window, rank, cut.world_size).size();
      const bool whole = cut.micro_batch == 0 || share < cut.micro_batch;
      if (cut.micro_batch == 1 ? share > 0 : (whole ? share : share % cut.micro_batch) == 1) return {{step, rank}};
    }
  }
  return std::nullopt;
}

}  // namespace gputrain

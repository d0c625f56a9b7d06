#pragma once
// Where training continues: rank 0 finds, verifies and loads a checkpoint; everything reaches the other ranks by
// broadcast.
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ckpt/checkpoint.h"
#include "dist/comm.h"
#include "train/state.h"

namespace gputrain {

struct Resumed {
  std::string path;                 // "" = from the beginning
  Json rejected = Json::array();    // [{checkpoint, why}]: newer ones that did not verify
  std::optional<StateStamp> saved;  // of the checkpoint; nullopt = from the beginning
  // What `begin` said; empty after a resume.
  std::vector<std::string> begun;
};

// A collective operation. `load` is called on rank 0 alone, and `begin` (if any) when it found no checkpoint: it gives
// the model its first weights, so that other hosts need no file of them, and returns notices. Checks that the
// checkpoint belongs to this run (check_same_run), copies it into the state, and makes all ranks' models, optimizers,
// scalers and counters equal to rank 0's, also without a checkpoint. An error on rank 0 is thrown there as it is; the
// others throw Error(kPeerLost): they are not the culprits.
Resumed resume(const Comms& comms, TrainState& state, const StateStamp& now, const std::function<ResumeChoice()>& load,
               const std::function<std::vector<std::string>()>& begin = {});

// The same for evaluation: the model's tensors, and the moving average if one is wanted (null: not; the weights where
// the checkpoint has none). Returns the checkpoint's path and step.
struct LoadedModel {
  std::string path;
  int64_t step = 0;
  bool has_average = false;  // `ema` was wanted, and holds a saved average
};
LoadedModel load_model(const Comms& comms, const Model& model, Ema* ema, const std::function<LoadedCheckpoint()>& load);

}  // namespace gputrain

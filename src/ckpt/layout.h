#pragma once
// Names under OUTPUT/checkpoints, and which directories resume looks at. FORMAT.md lists them.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sys/fs.h"

namespace gputrain {

inline constexpr char kManifestFile[] = "manifest.json";
inline constexpr char kModelFile[] = "model.safetensors";
inline constexpr char kOptimizerFile[] = "optimizer.safetensors";
inline constexpr char kStateFile[] = "state.json";
inline constexpr char kReplacedPrefix[] = ".replaced-";  // made room for a new checkpoint of its own step
inline constexpr char kAsidePrefix[] = ".aside-";        // a past that the run has left; never looked at again

std::string step_name(int64_t step);                    // "step-00001200"
std::string temporary_name(int64_t step, int attempt);  // ".tmp-1200-3": being written
std::string trash_name(std::string_view original);      // ".trash-step-00001200": being removed

// The step of a name that step_name() makes; nullopt for every other name (foreign files are nobody's business).
std::optional<int64_t> step_of(std::string_view name);
// The step of ".replaced-step-00001200-1".
std::optional<int64_t> replaced_step_of(std::string_view name);
bool is_temporary(std::string_view name);
bool is_trash(std::string_view name);

// "<directory>/<prefix><step name>-<k>" with the first k from 1 on that is free.
std::string free_name(FileSystem& fs, const std::string& directory, const std::string& prefix, int64_t step);

struct Candidate {
  int64_t step = 0;
  std::string path;
};
// What may hold a checkpoint, best first: newest step first, and of one step its own directory before the replaced
// ones.
std::vector<Candidate> list_candidates(FileSystem& fs, const std::string& directory);

}  // namespace gputrain

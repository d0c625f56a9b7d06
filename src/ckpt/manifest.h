#pragma once
// manifest.json: what a checkpoint consists of. Written last; FORMAT.md is the grammar. Every byte of it is covered by
// its own hashes or by the one canonical layout, so a flipped bit never goes unnoticed.
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ckpt/checkpoint.h"

namespace gputrain {

struct TensorSlice {
  std::string file;
  std::vector<int64_t> shape;
  std::vector<int64_t> offset;  // of its first element in the whole tensor, one number a dimension
  bool operator==(const TensorSlice&) const = default;
};

struct ManifestTensor {
  std::string dtype;
  std::vector<int64_t> shape;
  std::vector<TensorSlice> slices;
  bool operator==(const ManifestTensor&) const = default;
};

struct ManifestFile {
  std::string file;
  int64_t size = 0;
  std::string xxh3;
  bool operator==(const ManifestFile&) const = default;
};

struct Manifest {
  int64_t step = 0;
  std::string run_id;
  std::vector<ManifestFile> files;
  std::map<std::string, ManifestTensor> tensors;
  bool operator==(const Manifest&) const = default;

  const ManifestFile* find(const std::string& file) const;  // nullptr: not listed
};

inline constexpr int kManifestFormat = 1;

// The parts joined. Throws kCheckpoint when two of them hold the same file or tensor.
Manifest make_manifest(int64_t step, const std::string& run_id, const std::vector<PartReport>& parts);

std::string manifest_text(const Manifest& manifest);

// The inverse of manifest_text, strict: an unknown or missing item, another format version, or any byte that
// manifest_text would not have written is an Error of kind kCheckpoint with `where`.
Manifest parse_manifest(const std::string& text, const std::string& where);

// A PartReport's `tensors`: each tensor one slice, whole, in `file`.
Json describe_whole_tensors(const std::string& file, const NamedTensors& tensors);

}  // namespace gputrain

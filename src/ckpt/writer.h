#pragma once
// Writes the files of one checkpoint, each fsynced and hashed on the way, and reports them for the manifest.
#include <string>
#include <string_view>

#include "ckpt/checkpoint.h"
#include "ckpt/safetensors.h"

namespace gputrain {

// `plan` was made from `tensors`. File system errors pass through.
PartReport write_tensor_part(FileSystem& fs, const std::string& directory, const std::string& file,
                             const NamedTensors& tensors, const SafetensorsPlan& plan);
PartReport write_text_part(FileSystem& fs, const std::string& directory, const std::string& file,
                           std::string_view text);

// The commit mark: after it the directory holds a whole checkpoint. Syncs the directory too. Returns the file's size.
int64_t write_manifest(FileSystem& fs, const std::string& directory, const std::string& text);

}  // namespace gputrain

#include "ckpt/verify.h"

#include <ATen/core/Tensor.h>

#include "ckpt/layout.h"
#include "ckpt/safetensors.h"
#include "ckpt/xxh3.h"
#include "util/text.h"

namespace gputrain {
namespace {

[[noreturn]] void refuse(const std::string& where, const std::string& why) {
  throw Error(ErrorKind::kCheckpoint, why, where);
}

void check_hash(const std::string& path, const ManifestFile& file, const std::string& hash) {
  if (hash != file.xxh3) {
    refuse(path, file.file + " is damaged: its hash is " + hash + ", the manifest says " + file.xxh3);
  }
}

enum class Group { kModel, kOptimizer, kState };

Group group_of(const std::string& path, const std::string& file) {
  if (file == kStateFile) return Group::kState;
  if (file.ends_with(".safetensors")) {
    if (file.starts_with("model")) return Group::kModel;
    if (file.starts_with("optimizer")) return Group::kOptimizer;
  }
  refuse(path, "the manifest lists the unknown file " + printable(file));
}

void check_files(FileSystem& fs, const std::string& path, const Manifest& manifest) {
  for (const char* required : {kModelFile, kOptimizerFile, kStateFile}) {
    if (manifest.find(required) == nullptr) refuse(path, std::string("the manifest lacks ") + required);
  }
  for (const ManifestFile& file : manifest.files) {
    group_of(path, file.file);
    const std::string full = path + "/" + file.file;
    if (!fs.exists(full)) refuse(path, file.file + " is missing");
    if (const int64_t size = fs.size(full); size != file.size) {
      refuse(path,
             file.file + " has " + std::to_string(size) + " bytes, the manifest says " + std::to_string(file.size));
    }
  }
}

// The tensors of one file, as its own header or as the manifest describes them.
using Description = std::map<std::string, std::pair<std::string, std::vector<int64_t>>>;

void check_tensors(const std::string& path, const std::string& file, const Manifest& manifest,
                   const Description& found) {
  Description expected;
  for (const auto& [name, tensor] : manifest.tensors) {
    if (tensor.slices[0].file == file) expected[name] = {tensor.dtype, tensor.shape};
  }
  if (expected != found) refuse(path, file + " does not hold the tensors that the manifest lists for it");
}

void check_all_tensors_have_files(const std::string& path, const Manifest& manifest) {
  for (const auto& [name, tensor] : manifest.tensors) {
    const std::string& file = tensor.slices[0].file;
    if (manifest.find(file) == nullptr || group_of(path, file) == Group::kState) {
      refuse(path, "tensor \"" + printable(name) + "\" is in no listed file");
    }
  }
}

Description describe(const std::vector<SafetensorsEntry>& entries) {
  Description description;
  for (const SafetensorsEntry& entry : entries) description[entry.name] = {entry.dtype, entry.shape};
  return description;
}

Description describe(const std::map<std::string, at::Tensor>& tensors) {
  Description description;
  for (const auto& [name, tensor] : tensors) {
    description[name] = {safetensors_dtype(tensor.scalar_type()), tensor.sizes().vec()};
  }
  return description;
}

}  // namespace

CheckpointHead read_checkpoint_head(FileSystem& fs, const std::string& path, std::optional<int64_t> expected_step) {
  const std::string manifest_path = path + "/" + kManifestFile;
  if (!fs.exists(manifest_path)) refuse(path, std::string("no ") + kManifestFile);
  const std::string text = fs.read(manifest_path);
  CheckpointHead head{path, parse_manifest(text, manifest_path), {}, static_cast<int64_t>(text.size())};
  const Manifest& manifest = head.manifest;
  if (expected_step && manifest.step != *expected_step) {
    refuse(path, "the manifest is of step " + std::to_string(manifest.step));
  }
  check_files(fs, path, manifest);
  check_all_tensors_have_files(path, manifest);
  for (const ManifestFile& file : manifest.files) head.bytes += file.size;
  const std::string state = fs.read(path + "/" + kStateFile);
  check_hash(path, *manifest.find(kStateFile), xxh3_hex(state));
  head.state = parse_state(state, path + "/" + kStateFile);
  return head;
}

CheckpointHead verify_checkpoint(FileSystem& fs, const std::string& path, std::optional<int64_t> expected_step) {
  CheckpointHead head = read_checkpoint_head(fs, path, expected_step);
  for (const ManifestFile& file : head.manifest.files) {
    if (file.file == kStateFile) continue;  // its hash was checked with the head
    const std::string full = path + "/" + file.file;
    check_hash(path, file, xxh3_of_file(fs, full));
    check_tensors(path, file.file, head.manifest, describe(read_safetensors_header(fs, full)));
  }
  return head;
}

LoadedCheckpoint load_verified(FileSystem& fs, const std::string& path, std::optional<int64_t> expected_step) {
  CheckpointHead head = read_checkpoint_head(fs, path, expected_step);
  LoadedCheckpoint loaded{head.manifest.step, path, {}, {}, std::move(head.state.state), head.manifest.run_id};
  for (const ManifestFile& file : head.manifest.files) {
    if (file.file == kStateFile) continue;
    Xxh3 hash;
    std::map<std::string, at::Tensor> tensors = read_safetensors(fs, path + "/" + file.file, &hash);
    check_hash(path, file, hash.hex());
    check_tensors(path, file.file, head.manifest, describe(tensors));
    (group_of(path, file.file) == Group::kModel ? loaded.model : loaded.optimizer).merge(tensors);
  }
  return loaded;
}

}  // namespace gputrain

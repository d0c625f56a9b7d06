#include "ckpt/manifest.h"

#include <algorithm>
#include <initializer_list>
#include <limits>

#include "ckpt/safetensors.h"
#include "ckpt/xxh3.h"
#include "util/error.h"
#include "util/text.h"

namespace gputrain {
namespace {

Json to_json(const ManifestFile& file) {
  return {{"file", file.file}, {"size", file.size}, {"xxh3", file.xxh3}};
}

Json to_json(const ManifestTensor& tensor) {
  Json slices = Json::array();
  for (const TensorSlice& slice : tensor.slices) {
    slices.push_back({{"file", slice.file}, {"shape", slice.shape}, {"offset", slice.offset}});
  }
  return {{"dtype", tensor.dtype}, {"shape", tensor.shape}, {"slices", std::move(slices)}};
}

// Reads items of a manifest; every way in which one can be wrong ends here.
class ManifestReader {
 public:
  explicit ManifestReader(std::string where) : where_(std::move(where)) {}

  [[noreturn]] void refuse(const std::string& why) const {
    throw Error(ErrorKind::kCheckpoint, "not a valid manifest: " + why, where_);
  }

  // Exactly these items, no more and no fewer.
  void expect_items(const Json& object, const std::string& what, std::initializer_list<const char*> keys) const {
    if (!object.is_object()) refuse(what + " is not an object");
    for (const char* key : keys) {
      if (!object.contains(key)) refuse(what + " lacks \"" + key + "\"");
    }
    for (const auto& [key, value] : object.items()) {
      if (std::find(keys.begin(), keys.end(), key) == keys.end()) {
        refuse(what + " has the unknown item \"" + printable(key) + "\"");
      }
    }
  }

  int64_t integer(const Json& value, const std::string& what) const {
    // Parsed numbers are unsigned; those of a report made in this process are signed.
    const bool too_large =
        value.is_number_unsigned() && value.get<uint64_t>() > uint64_t{std::numeric_limits<int64_t>::max()};
    if (!value.is_number_integer() || too_large || value.get<int64_t>() < 0) refuse(what + " is not a whole number");
    return value.get<int64_t>();
  }

  std::string text(const Json& value, const std::string& what) const {
    if (!value.is_string()) refuse(what + " is not a string");
    return value.get<std::string>();
  }

  std::vector<int64_t> integers(const Json& value, const std::string& what) const {
    if (!value.is_array()) refuse(what + " is not a list");
    std::vector<int64_t> numbers;
    for (const Json& item : value) numbers.push_back(integer(item, what));
    return numbers;
  }

  ManifestFile file(const Json& value) const {
    expect_items(value, "a file", {"file", "size", "xxh3"});
    ManifestFile file{text(value["file"], "file"), integer(value["size"], "size"), text(value["xxh3"], "xxh3")};
    // Names come from a file that may be foreign: they must not lead out of the checkpoint.
    if (file.file.empty() || file.file.starts_with('.') || file.file.find('/') != file.file.npos) {
      refuse("\"" + printable(file.file) + "\" is not a plain file name");
    }
    return file;
  }

  ManifestTensor tensor(const std::string& name, const Json& value) const {
    const std::string what = "tensor \"" + printable(name) + "\"";
    expect_items(value, what, {"dtype", "shape", "slices"});
    ManifestTensor tensor{text(value["dtype"], what), integers(value["shape"], what), {}};
    if (!value["slices"].is_array()) refuse(what + " has no list of slices");
    for (const Json& item : value["slices"]) {
      expect_items(item, what, {"file", "shape", "offset"});
      tensor.slices.push_back(
          {text(item["file"], what), integers(item["shape"], what), integers(item["offset"], what)});
    }
    check_whole(what, tensor);
    return tensor;
  }

 private:
  // Format 1 can name slices; its writers store each tensor whole.
  void check_whole(const std::string& what, const ManifestTensor& tensor) const {
    const std::vector<int64_t> origin(tensor.shape.size(), 0);
    if (tensor.slices.size() != 1 || tensor.slices[0].shape != tensor.shape || tensor.slices[0].offset != origin) {
      refuse(what + " is not one whole slice");
    }
  }

  std::string where_;
};

// The text without run_id and the closing hash: what "xxh3" is taken over, so that two runs of the same seed share it.
std::string compared_text(const Manifest& manifest) {
  std::string text = "{\n\"format\": " + std::to_string(kManifestFormat) +
                     ",\n\"step\": " + std::to_string(manifest.step) + ",\n\"files\": [";
  const char* separator = "\n";
  for (const ManifestFile& file : manifest.files) {
    text += separator + to_json(file).dump();
    separator = ",\n";
  }
  text += "],\n\"tensors\": {";
  separator = "\n";
  for (const auto& [name, tensor] : manifest.tensors) {
    text += separator + Json(name).dump() + ": " + to_json(tensor).dump();
    separator = ",\n";
  }
  return text + "},\n";
}

Manifest read_items(const ManifestReader& reader, const Json& json) {
  reader.expect_items(json, "the manifest", {"format", "step", "files", "tensors", "xxh3", "run_id"});
  if (json["format"] != kManifestFormat) {
    reader.refuse("format " + dump_line(json["format"]) + ", this gputrain reads " + std::to_string(kManifestFormat));
  }
  Manifest manifest;
  manifest.step = reader.integer(json["step"], "step");
  reader.expect_items(json["run_id"], "run_id", {"id", "xxh3"});
  manifest.run_id = reader.text(json["run_id"]["id"], "run_id");
  if (!json["files"].is_array()) reader.refuse("files is not a list");
  for (const Json& file : json["files"]) manifest.files.push_back(reader.file(file));
  if (!json["tensors"].is_object()) reader.refuse("tensors is not an object");
  for (const auto& [name, value] : json["tensors"].items()) manifest.tensors.emplace(name, reader.tensor(name, value));
  return manifest;
}

}  // namespace

const ManifestFile* Manifest::find(const std::string& file) const {
  const auto found = std::find_if(files.begin(), files.end(), [&](const ManifestFile& f) { return f.file == file; });
  return found == files.end() ? nullptr : &*found;
}

Json describe_whole_tensors(const std::string& file, const NamedTensors& tensors) {
  Json described = Json::object();
  for (const auto& [name, tensor] : tensors) {
    const std::vector<int64_t> shape = tensor.sizes().vec();
    const TensorSlice slice{file, shape, std::vector<int64_t>(shape.size(), 0)};
    described[name] = to_json(ManifestTensor{safetensors_dtype(tensor.scalar_type()), shape, {slice}});
  }
  return described;
}

Manifest make_manifest(int64_t step, const std::string& run_id, const std::vector<PartReport>& parts) {
  Manifest manifest{step, run_id, {}, {}};
  const ManifestReader reader("the writers' reports");
  for (const PartReport& part : parts) {
    if (manifest.find(part.file) != nullptr) reader.refuse("two writers reported the file " + printable(part.file));
    manifest.files.push_back({part.file, part.size, part.xxh3});
    for (const auto& [name, value] : part.tensors.items()) {
      if (!manifest.tensors.emplace(name, reader.tensor(name, value)).second) {
        reader.refuse("tensor \"" + printable(name) + "\" is stored twice");
      }
    }
  }
  std::sort(manifest.files.begin(), manifest.files.end(),
            [](const ManifestFile& a, const ManifestFile& b) { return a.file < b.file; });
  return manifest;
}

std::string manifest_text(const Manifest& manifest) {
  const std::string compared = compared_text(manifest);
  const Json run_id = {{"id", manifest.run_id}, {"xxh3", xxh3_hex(manifest.run_id)}};
  return compared + "\"xxh3\": \"" + xxh3_hex(compared) + "\",\n\"run_id\": " + run_id.dump() + "\n}\n";
}

Manifest parse_manifest(const std::string& text, const std::string& where) {
  const ManifestReader reader(where);
  Json json;
  try {
    json = parse_json(text, where);
  } catch (const Error& error) {
    reader.refuse(printable(error.message));
  }
  const Manifest manifest = read_items(reader, json);
  if (manifest_text(manifest) != text) reader.refuse("its bytes do not match its own hash");
  return manifest;
}

}  // namespace gputrain

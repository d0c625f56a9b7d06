#include "ckpt/writer.h"

#include <algorithm>

#include "ckpt/layout.h"
#include "ckpt/manifest.h"
#include "ckpt/xxh3.h"

namespace gputrain {
namespace {

// Passes bytes on and hashes them.
class HashingFile : public WritableFile {
 public:
  HashingFile(FileSystem& fs, const std::string& path) : file_(fs.create(path)) {}

  void append(std::span<const char> bytes) override {
    size_ += static_cast<int64_t>(bytes.size());
    // By pieces, so that the copy into the page cache finds in the CPU's cache what was just hashed.
    while (!bytes.empty()) {
      const auto piece = bytes.first(std::min(bytes.size(), kPiece));
      hash_.update(piece);
      file_->append(piece);
      bytes = bytes.subspan(piece.size());
    }
  }
  void sync() override { file_->sync(); }
  void close() override { file_->close(); }

  PartReport report(const std::string& file) const { return {file, size_, hash_.hex(), Json::object()}; }

 private:
  static constexpr size_t kPiece = size_t{1} << 20;
  std::unique_ptr<WritableFile> file_;
  Xxh3 hash_;
  int64_t size_ = 0;
};

template <typename Fill>
PartReport write_part(FileSystem& fs, const std::string& directory, const std::string& name, Fill fill) {
  HashingFile file(fs, directory + "/" + name);
  fill(file);
  file.sync();
  file.close();
  return file.report(name);
}

}  // namespace

PartReport write_tensor_part(FileSystem& fs, const std::string& directory, const std::string& file,
                             const NamedTensors& tensors, const SafetensorsPlan& plan) {
  PartReport report = write_part(fs, directory, file, [&](WritableFile& out) { write_safetensors(out, plan); });
  report.tensors = describe_whole_tensors(file, tensors);
  return report;
}

PartReport write_text_part(FileSystem& fs, const std::string& directory, const std::string& file,
                           std::string_view text) {
  return write_part(fs, directory, file, [&](WritableFile& out) { out.append(text); });
}

int64_t write_manifest(FileSystem& fs, const std::string& directory, const std::string& text) {
  const PartReport report = write_text_part(fs, directory, kManifestFile, text);
  fs.sync_directory(directory);
  return report.size;
}

}  // namespace gputrain

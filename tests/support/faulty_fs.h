#pragma once
// A file system that fails, or loses power, at its k-th operation. It forwards to the real one (in a test's directory)
// and keeps a model of what a disk would still hold: file contents up to their last sync, directory entries up to the
// last sync of their directory. Not thread-safe.
//
//   FaultyFileSystem fs(dir.path());
//   fs.fail_at(3);                              // the third operation from now throws Error(kOutput), later ones work
//   fs.crash_at(3, PowerLoss::kUnsyncedGone);   // from the third on every operation throws Crash; then:
//   fs.restart();                               // the directory is what the disk kept
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sys/fs.h"
#include "util/error.h"

namespace gputrain::testing {

// Thrown where the process would be gone. Deliberately no std::exception: nothing may catch it on the way.
struct Crash {};

// What is lost of that which was not synced. Disks may lose either half, or nothing (a killed process loses nothing).
enum class PowerLoss { kNothing, kContents, kEntries, kUnsyncedGone };

class FaultyFileSystem : public FileSystem {
 public:
  // Everything under `root`, which exists, is durable at the start.
  explicit FaultyFileSystem(std::string root) : root_(std::move(root)), disk_(scan(root_)) {}

  void fail_at(int64_t k) { arm(k, std::nullopt); }
  // Every operation from the k-th on throws Error(kOutput): the disk is gone for good, clean-up fails too.
  void fail_from(int64_t k) {
    arm(k, std::nullopt);
    persistent_ = true;
  }
  void crash_at(int64_t k, PowerLoss loss) { arm(k, loss); }
  // The power goes now, between two operations.
  void lose_power(PowerLoss loss) {
    loss_ = loss;
    crashed_ = true;
  }
  // Whether the armed operation was reached.
  bool triggered() const { return triggered_; }
  int64_t operations() const { return operations_; }
  // What free_bytes() answers; unset: the truth.
  void set_free_bytes(int64_t bytes) { free_bytes_ = bytes; }

  // Applies the power loss (after a Crash) and disarms.
  void restart() {
    if (crashed_ && *loss_ != PowerLoss::kNothing) apply_loss();
    disk_ = scan(root_);
    arm(-1, std::nullopt);
    crashed_ = false;
  }

  std::unique_ptr<WritableFile> create(const std::string& path) override {
    step(path);
    auto file = real_.create(path);
    const auto node = std::make_shared<Node>();
    directory_of(path).entries[leaf(path)] = node;
    return std::make_unique<File>(*this, path, node, std::move(file));
  }
  std::string read(const std::string& path) override { return step(path), real_.read(path); }
  void read_at(const std::string& path, int64_t offset, std::span<char> out) override {
    step(path);
    real_.read_at(path, offset, out);
  }
  int64_t size(const std::string& path) override { return step(path), real_.size(path); }
  bool exists(const std::string& path) override { return step(path), real_.exists(path); }
  std::vector<std::string> list(const std::string& path) override { return step(path), real_.list(path); }
  void make_directories(const std::string& path) override {
    step(path);
    real_.make_directories(path);
    Node* node = disk_.get();
    for (const std::string& name : parts(path)) {
      auto& child = node->entries[name];
      if (!child) {
        child = std::make_shared<Node>();
        child->is_directory = true;
      }
      node = child.get();
    }
  }
  void rename(const std::string& from, const std::string& to) override {
    step(from);
    real_.rename(from, to);
    auto& source = directory_of(from).entries;
    const auto node = source.at(leaf(from));
    source.erase(leaf(from));
    directory_of(to).entries[leaf(to)] = node;
  }
  void remove_all(const std::string& path) override {
    step(path, [&] { remove_a_part(path); });
    const bool existed = real_.exists(path);
    real_.remove_all(path);
    if (existed) directory_of(path).entries.erase(leaf(path));
  }
  void sync_directory(const std::string& path) override {
    step(path);
    // The model stands for the disk: a real fsync would only cost time.
    Node* node = find(path);
    if (node != nullptr) node->durable_entries = node->entries;  // nullptr: above the root, which is durable
  }
  int64_t free_bytes(const std::string& path) override {
    step(path);
    return free_bytes_.value_or(real_.free_bytes(path));
  }

 private:
  // An inode: what it is now (entries; a file's bytes are on the real disk) and what would survive.
  struct Node {
    bool is_directory = false;
    std::map<std::string, std::shared_ptr<Node>> entries;
    std::map<std::string, std::shared_ptr<Node>> durable_entries;
    std::string contents;
    std::string durable_contents;
  };

  class File : public WritableFile {
   public:
    File(FaultyFileSystem& fs, std::string path, std::shared_ptr<Node> node, std::unique_ptr<WritableFile> real)
        : fs_(fs), path_(std::move(path)), node_(std::move(node)), real_(std::move(real)) {}
    void append(std::span<const char> bytes) override {
      // A write that fails or dies has often done a part of its work.
      fs_.step(path_, [&] { write(bytes.first(bytes.size() / 2)); });
      write(bytes);
    }
    void sync() override {
      fs_.step(path_);
      node_->durable_contents = node_->contents;
    }
    void close() override {
      fs_.step(path_);
      real_->close();
    }

   private:
    void write(std::span<const char> bytes) {
      real_->append(bytes);
      node_->contents.append(bytes.data(), bytes.size());
    }
    FaultyFileSystem& fs_;
    std::string path_;
    std::shared_ptr<Node> node_;
    std::unique_ptr<WritableFile> real_;
  };

  void arm(int64_t k, std::optional<PowerLoss> loss) {
    operations_ = 0;
    armed_at_ = k;
    loss_ = loss;
    triggered_ = false;
    persistent_ = false;
  }

  // Counts an operation; throws instead of it when it is the armed one, after the part of it that happens all the same.
  void step(
      const std::string& path, const std::function<void()>& happens_before_fault = [] {}) {
    if (crashed_) throw Crash();
    ++operations_;
    const bool again = persistent_ && operations_ > armed_at_;
    if (operations_ != armed_at_ && !again) return;
    triggered_ = true;
    happens_before_fault();
    crashed_ = loss_.has_value();
    if (crashed_) throw Crash();
    throw Error(ErrorKind::kOutput, "cannot use " + path + ": No space left on device");
  }

  void remove_a_part(const std::string& path) {
    Node* node = real_.exists(path) ? find(path) : nullptr;
    if (node == nullptr || node->entries.empty()) return;
    real_.remove_all(path + "/" + node->entries.begin()->first);
    node->entries.erase(node->entries.begin());
  }

  // Names below the root; empty for the root and for what is not below it.
  std::vector<std::string> parts(const std::string& path) const {
    std::vector<std::string> names;
    if (!path.starts_with(root_)) return names;
    std::string name;
    for (const char c : path.substr(root_.size()) + "/") {
      if (c != '/') {
        name += c;
      } else if (!name.empty()) {
        names.push_back(std::exchange(name, ""));
      }
    }
    return names;
  }
  static std::string leaf(const std::string& path) { return path.substr(path.rfind('/') + 1); }
  Node* find(const std::string& path) {
    if (!path.starts_with(root_)) return nullptr;
    Node* node = disk_.get();
    for (const std::string& name : parts(path)) node = node->entries.at(name).get();
    return node;
  }
  Node& directory_of(const std::string& path) { return *find(path.substr(0, path.rfind('/'))); }

  std::shared_ptr<Node> scan(const std::string& path) {
    auto node = std::make_shared<Node>();
    try {
      node->contents = node->durable_contents = real_.read(path);
    } catch (const Error&) {
      node->is_directory = true;
      for (const std::string& name : real_.list(path)) node->entries[name] = scan(path + "/" + name);
      node->durable_entries = node->entries;
    }
    return node;
  }

  void apply_loss() {
    for (const std::string& name : real_.list(root_)) real_.remove_all(root_ + "/" + name);
    write_surviving(*disk_, root_);
  }
  void write_surviving(const Node& directory, const std::string& path) {
    const bool entries_lost = *loss_ == PowerLoss::kEntries || *loss_ == PowerLoss::kUnsyncedGone;
    const bool contents_lost = *loss_ == PowerLoss::kContents || *loss_ == PowerLoss::kUnsyncedGone;
    for (const auto& [name, node] : entries_lost ? directory.durable_entries : directory.entries) {
      const std::string child = path + "/" + name;
      if (node->is_directory) {
        real_.make_directories(child);
        write_surviving(*node, child);
      } else {
        const auto file = real_.create(child);
        file->append(contents_lost ? node->durable_contents : node->contents);
        file->close();
      }
    }
  }

  FileSystem& real_ = real_file_system();
  std::string root_;
  std::shared_ptr<Node> disk_;
  std::optional<int64_t> free_bytes_;
  std::optional<PowerLoss> loss_;  // of the armed crash; unset: a failure
  int64_t operations_ = 0;
  int64_t armed_at_ = -1;
  bool triggered_ = false;
  bool persistent_ = false;
  bool crashed_ = false;
};

}  // namespace gputrain::testing

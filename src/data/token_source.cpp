// Tokens one after another without a header, as nanoGPT's train.bin.
#include <array>
#include <cstring>
#include <utility>

#include "data/args.h"
#include "data/class_range.h"
#include "data/content_hash.h"
#include "data/data_file.h"
#include "data/sources.h"
#include "data/widen.h"
#include "util/text.h"

namespace gputrain {
namespace {

at::ScalarType type_of(const std::string& name, const std::string& role) {
  if (name == "uint8") return at::kByte;
  if (name == "uint16") return at::kUInt16;
  if (name == "uint32") return at::kUInt32;
  throw Error(ErrorKind::kSpec, role + ".dtype '" + printable(name) + "' is unknown", "",
              "the types of tokens are uint8, uint16 and uint32");
}

class TokenSource : public Source {
 public:
  explicit TokenSource(const SourceRequest& request)
      : TokenSource(ArgReader(request.args, request.role, {"path", "dtype", "context", "offset"}), request) {}

  int64_t size() const override { return (count_ - 1) / context_; }  // the last token of a window is a target only
  std::vector<int64_t> sample_shape() const override { return {context_}; }
  at::ScalarType sample_type() const override { return at::kLong; }
  at::ScalarType target_type() const override { return at::kLong; }
  std::vector<int64_t> target_shape() const override { return {context_}; }

  void read(int64_t id, void* sample, void* target) const override {
    GP_CHECK(id >= 0 && id < size(), "sample " + std::to_string(id));
    const std::span inputs(static_cast<int64_t*>(sample), static_cast<size_t>(context_));
    const std::span targets(static_cast<int64_t*>(target), static_cast<size_t>(context_));
    // The tokens lie in the targets' memory until they are widened: context + 1 of at most 4 bytes fit into context
    // of 8.
    const auto* stored = static_cast<const char*>(target);
    read_tokens(id * context_, {static_cast<char*>(target), static_cast<size_t>((context_ + 1) * width_)});
    widen(type_, stored, inputs);
    int64_t last = 0;
    widen(type_, stored + context_ * width_, std::span(&last, 1));
    std::memcpy(targets.data(), inputs.data() + 1, (inputs.size() - 1) * sizeof(int64_t));
    targets.back() = last;
    check(inputs, id * context_);
    check({&last, 1}, (id + 1) * context_);
  }

  void check_unchanged() const override { file_.check_size(); }

  Json fingerprint() const override {
    const auto read = [this](int64_t at, std::span<char> out) { file_.read_at(offset_ + at, out); };
    return {{"format", "tokens"}, {"samples", size()},        {"context", context_},
            {"dtype", dtype_},    {"bytes", count_ * width_}, {"hash", sampled_hash(count_ * width_, read)}};
  }

 private:
  TokenSource(const ArgReader& args, const SourceRequest& request)
      : dtype_(args.text("dtype")),
        type_(type_of(dtype_, request.role)),
        width_(static_cast<int64_t>(at::elementSize(type_))),
        context_(args.integer("context")),
        offset_(args.integer("offset", 0)),
        range_{.classes = request.options.classes, .ignore_index = std::nullopt},
        file_(args.text("path"), request.role) {
    if (context_ < 1 || context_ > kLongest || offset_ < 0) {
      throw Error(ErrorKind::kSpec, request.role + ": context is at least 1 and at most " + std::to_string(kLongest) +
                                        ", offset at least 0");
    }
    count_ = std::max<int64_t>(0, file_.size() - offset_) / width_;
    check_file();
    file_.expect_scattered_reads();
    check_all();
  }

  // Is it a file of tokens, as far as its size and first bytes tell?
  void check_file() const {
    if (file_.size() == 0) throw file_.error("is empty");
    std::array<char, 8> head{};
    const std::string_view begin(head.data(), file_.read_some(0, head));
    if (offset_ == 0 && begin.starts_with("\x93NUMPY")) {
      throw file_.error("is a NumPy .npy file: its header would be read as tokens",
                        "write the tokens with ndarray.tofile, or set offset to the header's length (most often 128)");
    }
    const int64_t bytes = file_.size() - offset_;
    const std::string bytes_text = std::to_string(file_.size()) + " bytes - offset " + std::to_string(offset_);
    if (bytes > 0 && bytes % width_ != 0) {
      throw file_.error("does not hold a whole number of tokens: " + bytes_text + " = " + std::to_string(bytes) +
                            ", at " + std::to_string(width_) + " bytes a token (" + dtype_ + ")",
                        "the file is cut, or dtype or offset are not its own");
    }
    if (size() >= 1) return;
    throw file_.error("is too short: " + bytes_text + " are " + plural(count_, "token") + " of " + dtype_ +
                          ", and a window of context " + std::to_string(context_) + " takes " +
                          std::to_string(context_ + 1) + ", for its targets are shifted by one",
                      "use a smaller context, or a longer text");
  }

  void read_tokens(int64_t first, std::span<char> out) const { file_.read_at(offset_ + first * width_, out); }

  void check(std::span<const int64_t> tokens, int64_t first) const {
    const auto bad = range_.first_outside(tokens);
    if (!bad) return;
    const std::string place = "position " + std::to_string(first + static_cast<int64_t>(*bad));
    throw file_.error(range_.problem("token", tokens[*bad], place),
                      "set the model's vocab_size to the tokenizer's, or dtype and offset to the file's");
  }

  // Of a large file only what is read later is checked.
  void check_all() const {
    constexpr int64_t kCheap = 64 << 20, kBlock = 64 << 10;
    if (!range_.classes || count_ * width_ > kCheap) return;
    std::vector<int64_t> block;
    const int64_t used = size() * context_ + 1;
    for (int64_t first = 0; first < used; first += kBlock) {
      block.resize(static_cast<size_t>(std::min(kBlock, used - first)));
      const std::span<char> stored = tail_for(type_, std::span(block));
      read_tokens(first, stored);
      widen(type_, stored.data(), block);
      check(block, first);
    }
  }

  static constexpr int64_t kLongest = int64_t{1} << 30;

  std::string dtype_;
  at::ScalarType type_;
  int64_t width_;  // bytes of a token
  int64_t context_;
  int64_t offset_;
  ClassRange range_;
  DataFile file_;
  int64_t count_ = 0;  // tokens
};

}  // namespace

std::unique_ptr<Source> open_tokens(const SourceRequest& request) {
  need_task(request, "tokens", Task::kLanguageModel);
  return std::make_unique<TokenSource>(request);
}

}  // namespace gputrain

// The nearest key to one that does not exist.
#include <algorithm>
#include <utility>

#include "spec/builder.h"
#include "util/text.h"

namespace gputrain {
namespace {

// Names that other tools use.
constexpr std::pair<std::string_view, std::string_view> kOtherNames[] = {
    {"learning_rate", "optimizer.lr"},
    {"batch_size", "train.global_batch"},
    {"num_epochs", "train.epochs"},
    {"max_epochs", "train.epochs"},
    {"steps", "train.max_steps"},
    {"nproc", "launch.nproc_per_node"},
    {"gpus", "launch.nproc_per_node"},
    {"gradient_clipping", "train.clip_grad_norm"},
    {"run_name", "name"},
    {"output_dir", "output"},
    {"num_workers", "data.workers"},
    {"scheduler", "schedule"},
    {"warmup_steps", "schedule.warmup"},
    {"save_every", "checkpoint.every"},
    {"mixed_precision", "train.precision"},
    {"drop_last", "data.tail"},
};

std::vector<std::string> all_keys() {
  std::vector<std::string> keys;
  auto add_arguments = [&](CatalogKind kind, const std::string& prefix) {
    for (const auto& entry : catalog()) {
      if (entry.kind != kind) continue;
      for (const auto& arg : entry.args) {
        if (std::ranges::find(keys, prefix + arg.name) == keys.end()) keys.push_back(prefix + arg.name);
      }
    }
  };
  for (const auto& field : fields()) keys.emplace_back(field.key);
  add_arguments(CatalogKind::kOptimizer, "optimizer.");
  add_arguments(CatalogKind::kSchedule, "schedule.");
  add_arguments(CatalogKind::kModel, "model.args.");
  return keys;
}

std::string last_word(const std::string& key) {
  return key.substr(key.rfind('.') + 1);
}

// The sections and keys that may stand under `prefix`.
std::vector<std::string> siblings(const std::string& prefix, const std::vector<std::string>& keys) {
  std::vector<std::string> words;
  for (const auto& key : keys) {
    if (!key.starts_with(prefix)) continue;
    const std::string word = key.substr(prefix.size(), key.find('.', prefix.size()) - prefix.size());
    if (std::ranges::find(words, word) == words.end()) words.push_back(word);
  }
  return words;
}

}  // namespace

std::string suggest_key(const std::string& prefix, const std::string& key) {
  const std::vector<std::string> keys = all_keys();
  if (key.find('.') != std::string::npos && find_field(prefix + key) != nullptr) {
    return "keys are nested: write " + key.substr(0, key.find('.')) + ": and the rest below it";
  }
  const std::string sibling = nearest(key, siblings(prefix, keys));
  if (!sibling.empty()) return "did you mean " + prefix + sibling + "?";
  std::vector<std::string> words, same;
  for (const auto& candidate : keys) {
    words.push_back(last_word(candidate));
    if (words.back() == key && candidate != prefix + key) same.push_back(candidate);
  }
  if (!same.empty()) return "did you mean " + join_words(same, "or") + "?";

  std::vector<std::string> others;
  for (const auto& [other, ours] : kOtherNames) others.emplace_back(other);
  const std::string other = nearest(key, others);
  for (const auto& [name, ours] : kOtherNames) {
    if (name == other) return "did you mean " + std::string(ours) + "?";
  }
  const std::string elsewhere = nearest(key, words);
  for (size_t i = 0; i < words.size() && !elsewhere.empty(); ++i) {
    if (words[i] == elsewhere) return "did you mean " + keys[i] + "?";
  }
  return "";
}

}  // namespace gputrain

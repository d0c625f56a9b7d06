#include "train/first_weights.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>

#include <ATen/ATen.h>

#include "ckpt/safetensors.h"
#include "util/error.h"
#include "util/looks_like.h"
#include "util/text.h"

namespace gputrain {
namespace {

using Names = std::vector<std::string>;

struct ModelTensor {
  at::Tensor tensor;
  Names names;  // more than one when it is shared; checkpoints use the first
};

std::vector<ModelTensor> tensors_of(const Model& model) {
  std::vector<ModelTensor> tensors;
  std::unordered_map<const void*, size_t> index;
  const auto add = [&](const torch::OrderedDict<std::string, at::Tensor>& named) {
    for (const auto& item : named) {
      const auto [place, is_new] = index.emplace(item.value().unsafeGetTensorImpl(), tensors.size());
      if (is_new) tensors.push_back({item.value(), {}});
      tensors[place->second].names.push_back(item.key());
    }
  };
  add(model.named_parameters());
  add(model.named_buffers());
  return tensors;
}

std::string describe(at::ScalarType type, at::IntArrayRef shape) {
  Names sizes;
  for (const int64_t size : shape) sizes.push_back(std::to_string(size));
  return std::string(c10::toString(type)) + "[" + join(sizes, ", ") + "]";
}

// Whether one can be copied into the other without a loss that nobody asked for.
bool fits(const SafetensorsEntry& entry, const at::Tensor& tensor) {
  const at::ScalarType from = entry.scalar_type, to = tensor.scalar_type();
  const bool same_kind =
      c10::isFloatingType(from) == c10::isFloatingType(to) && (from == at::kBool) == (to == at::kBool);
  return same_kind && tensor.sizes() == at::IntArrayRef(entry.shape);
}

// What wraps a model in Python puts its own name in front of all others.
std::string wrapper_of(const std::vector<SafetensorsEntry>& entries, const std::vector<ModelTensor>& tensors) {
  for (const char* prefix : {"module.", "_orig_mod."}) {
    const bool all =
        std::all_of(entries.begin(), entries.end(), [&](const auto& e) { return e.name.starts_with(prefix); });
    const bool ours =
        std::any_of(tensors.begin(), tensors.end(), [&](const auto& t) { return t.names[0].starts_with(prefix); });
    if (all && !ours && !entries.empty()) return prefix;
  }
  return "";
}

// Finds the partners; reads nothing.
class Matching {
 public:
  struct Pair {
    at::Tensor target;
    Names sources;  // names as they stand in the file; more than one when it holds a shared tensor more than once
  };

  Matching(const Model& model, const ModelPlan& plan, const std::vector<SafetensorsEntry>& entries)
      : prefix_(model.base_prefix()), plan_(plan), surplus_(model.surplus_patterns()), tensors_(tensors_of(model)) {
    report.path = plan.init;
    report.wrapper = wrapper_of(entries, tensors_);
    for (const SafetensorsEntry& entry : entries) file_.emplace(entry.name.substr(report.wrapper.size()), &entry);
    for (const ModelTensor& tensor : tensors_) match(tensor);
    for (const auto& [name, entry] : file_) leave(name);
    for (const std::string& pattern : plan.init_ignore) {
      if (used_patterns_.count(pattern)) continue;
      throw Error(ErrorKind::kSpec,
                  "\"" + printable(pattern) + "\" matches no tensor of the model and none of " + plan.init,
                  "model.init_ignore", "patterns cover whole names; * is any run of characters");
    }
  }

  InitReport report;
  std::vector<Pair> pairs;
  Names misfits;  // "fc.weight is Float[10, 4], the model needs Float[3, 4]"

 private:
  // A name as it may be written: in full, or without the model's prefix.
  Names spellings(const std::string& name) const {
    if (prefix_.empty()) return {name};
    if (name.starts_with(prefix_)) return {name, name.substr(prefix_.size())};
    return {name, prefix_ + name};
  }

  bool is_ignored(const std::string& name) {
    bool ignored = false;
    for (const std::string& pattern : plan_.init_ignore) {
      for (const std::string& spelling : spellings(name)) {
        if (!matches_pattern(spelling, pattern)) continue;
        used_patterns_.insert(pattern);
        ignored = true;
      }
    }
    return ignored;
  }

  // Entries of the file under any name of the tensor; takes them out of `file_`.
  std::vector<const SafetensorsEntry*> take(const Names& names) {
    std::vector<const SafetensorsEntry*> found;
    for (const std::string& name : names) {
      Names written{name};
      if (!prefix_.empty() && name.starts_with(prefix_)) written.push_back(name.substr(prefix_.size()));
      for (const std::string& spelling : written) {
        const auto place = file_.find(spelling);
        if (place == file_.end()) continue;
        found.push_back(place->second);
        file_.erase(place);
        break;
      }
    }
    return found;
  }

  void match(const ModelTensor& tensor) {
    const std::string& name = tensor.names[0];
    bool ignored = false;
    for (const std::string& alias : tensor.names) ignored = is_ignored(alias) || ignored;
    const std::vector<const SafetensorsEntry*> sources = take(tensor.names);
    if (ignored) {
      report.ignored.push_back(name);
    } else if (sources.empty()) {
      if (!name.ends_with("num_batches_tracked")) report.missing.push_back(name);
    } else {
      pair(tensor, sources);
    }
  }

  void pair(const ModelTensor& tensor, const std::vector<const SafetensorsEntry*>& sources) {
    Pair pair{tensor.tensor, {}};
    for (const SafetensorsEntry* entry : sources) {
      pair.sources.push_back(entry->name);
      if (fits(*entry, tensor.tensor)) continue;
      misfits.push_back(entry->name + " is " + describe(entry->scalar_type, entry->shape) + ", the model needs " +
                        describe(tensor.tensor.scalar_type(), tensor.tensor.sizes()));
    }
    pairs.push_back(std::move(pair));
    report.loaded.push_back(tensor.names[0]);
  }

  // An entry that is no tensor of the model.
  void leave(const std::string& name) {
    const Names names = spellings(name);
    const auto known = [&](const std::string& pattern) {
      return std::any_of(names.begin(), names.end(), [&](const auto& s) { return matches_pattern(s, pattern); });
    };
    const bool ignored = is_ignored(name) || std::any_of(surplus_.begin(), surplus_.end(), known);
    (ignored ? report.ignored : report.extra).push_back(name);
  }

  const std::string prefix_;
  const ModelPlan& plan_;
  const Names surplus_;
  const std::vector<ModelTensor> tensors_;
  std::map<std::string, const SafetensorsEntry*> file_;  // by name without the wrapper's; what has no partner yet
  std::set<std::string> used_patterns_;
};

std::string listed(const Names& names) {
  Names safe;
  safe.reserve(names.size());
  for (const std::string& name : names) safe.push_back(printable(name));
  return join(safe, ", ");
}

// Throws when something keeps the weights from being loaded, all of it in one message.
void check(const Matching& matching, bool strict) {
  const InitReport& report = matching.report;
  Names problems;
  const auto add = [&](const std::string& what, const Names& names) {
    if (!names.empty()) problems.push_back(std::to_string(names.size()) + " " + what + ": " + listed(names));
  };
  if (strict) {
    add("missing from the file", report.missing);
    add("not of the model", report.extra);
  }
  add("of another shape or type", matching.misfits);
  if (problems.empty() && report.loaded.empty()) problems.push_back("none of its tensors is one of the model");
  if (problems.empty()) return;
  throw Error(ErrorKind::kData, "the file's tensors do not fit the model, nothing was loaded: " + join(problems, "; "),
              report.path,
              "model.init_ignore: [\"fc.*\"] leaves tensors out, here those of a head that is replaced; "
              "model.init_strict: false takes what there is");
}

// Of a file that cannot be read: the reader speaks of checkpoints, and knows nothing of pickles.
Error data_error(FileSystem& fs, const std::string& path, const Error& error) {
  std::string what = error.message;
  try {
    std::string head(static_cast<size_t>(std::min<int64_t>(fs.size(path), 512)), '\0');
    fs.read_at(path, 0, head);
    what += "; it " + looks_like(head);
  } catch (const Error&) {
    // It is missing or unreadable, which `error` says.
  }
  return Error(ErrorKind::kData, what, "model.init: " + path,
               "write it in Python with safetensors.torch.save_model(model, \"weights.safetensors\")");
}

// Equal where the file holds one tensor of the model more than once.
void check_shared(const Matching& matching, const std::map<std::string, at::Tensor>& values) {
  for (const Matching::Pair& pair : matching.pairs) {
    const at::Tensor& first = values.at(pair.sources[0]);
    for (const std::string& other : pair.sources) {
      if (other == pair.sources[0] || at::equal(first, values.at(other).to(first.scalar_type()))) continue;
      throw Error(ErrorKind::kData,
                  printable(pair.sources[0]) + " and " + printable(other) +
                      " differ in the file, and are one shared tensor in the model",
                  matching.report.path, "the file is of a model that does not share them");
    }
  }
}

}  // namespace

InitReport init_model(FileSystem& fs, const Model& model, const ModelPlan& plan) {
  try {
    const std::vector<SafetensorsEntry> entries = read_safetensors_header(fs, plan.init);
    const Matching matching(model, plan, entries);
    check(matching, plan.init_strict);
    const std::map<std::string, at::Tensor> values = read_safetensors(fs, plan.init);
    check_shared(matching, values);
    const at::NoGradGuard no_grad;
    for (const Matching::Pair& pair : matching.pairs) at::Tensor(pair.target).copy_(values.at(pair.sources[0]));
    return matching.report;
  } catch (const Error& error) {
    if (error.kind != ErrorKind::kCheckpoint && error.kind != ErrorKind::kOutput) throw;
    throw data_error(fs, plan.init, error);
  }
}

std::string InitReport::loaded_names() const {
  return "model.init: loaded from " + path + ": " + listed(loaded);
}

std::vector<std::string> InitReport::notices() const {
  std::vector<std::string> lines{"model.init: " + plural(std::ssize(loaded), "tensor") + " loaded from " + path +
                                 ", listed in rank 0's log"};
  const auto add = [&](const Names& names, const std::string& what) {
    if (!names.empty())
      lines.push_back("model.init: " + plural(std::ssize(names), "tensor") + " " + what + ": " + listed(names));
  };
  if (!wrapper.empty())
    lines.push_back("model.init: the names in the file begin with \"" + wrapper + "\", which was left out");
  add(missing, "not in the file, random");
  add(extra, "of the file not used");
  add(ignored, "left alone");
  return lines;
}

}  // namespace gputrain

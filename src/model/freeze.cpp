#include "model/freeze.h"

#include <algorithm>
#include <unordered_set>

#include "util/error.h"
#include "util/text.h"

namespace gputrain {
namespace {

using NamedList = torch::OrderedDict<std::string, at::Tensor>;

// "fc1.weight" for "fc": the first name that has a part of the pattern without its wildcards.
std::string suggestion(const NamedList& parameters, const std::string& pattern) {
  std::string plain = pattern;
  std::erase_if(plain, [](char c) { return c == '*' || c == '?'; });
  for (const auto& item : parameters) {
    if (!plain.empty() && item.key().find(plain) != std::string::npos) return item.key();
  }
  return parameters.is_empty() ? "" : parameters.front().key();
}

}  // namespace

void freeze_parameters(Model& model, const std::vector<std::string>& patterns) {
  if (patterns.empty()) return;
  const NamedList parameters = model.named_parameters();
  std::unordered_set<const void*> frozen;
  for (const std::string& pattern : patterns) {
    bool found = false;
    for (const auto& item : parameters) {
      if (!matches_pattern(item.key(), pattern)) continue;
      frozen.insert(item.value().unsafeGetTensorImpl());
      found = true;
    }
    if (found) continue;
    throw Error(
        ErrorKind::kSpec, "\"" + printable(pattern) + "\" matches no parameter of the model", "model.freeze",
        "patterns cover whole names, such as " + suggestion(parameters, pattern) + "; * is any run of characters");
  }
  const auto is_frozen = [&](const at::Tensor& parameter) {
    return frozen.count(parameter.unsafeGetTensorImpl()) != 0;
  };
  const bool trains = std::any_of(parameters.begin(), parameters.end(), [&](const auto& item) {
    return item.value().requires_grad() && !is_frozen(item.value());
  });
  if (!trains) {
    throw Error(ErrorKind::kSpec, "nothing is left to train: every parameter is frozen", "model.freeze",
                "leave out the pattern that matches the layers to be trained");
  }
  for (const auto& item : parameters) {
    if (is_frozen(item.value())) at::Tensor(item.value()).set_requires_grad(false);
  }
}

}  // namespace gputrain

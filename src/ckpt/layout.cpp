#include "ckpt/layout.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <tuple>

#include "util/text.h"

namespace gputrain {
namespace {

constexpr std::string_view kTemporary = ".tmp-";
constexpr std::string_view kTrash = ".trash-";

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == text.npos;
}

}  // namespace

std::string step_name(int64_t step) {
  char name[32];
  std::snprintf(name, sizeof name, "step-%08lld", static_cast<long long>(step));
  return name;
}

std::string temporary_name(int64_t step, int attempt) {
  return std::string(kTemporary) + std::to_string(step) + "-" + std::to_string(attempt);
}

std::string trash_name(std::string_view original) {
  const size_t dot = original.starts_with('.') ? 1 : 0;
  return std::string(kTrash) + std::string(original.substr(dot));
}

std::optional<int64_t> step_of(std::string_view name) {
  constexpr std::string_view kStep = "step-";
  if (!name.starts_with(kStep) || !is_number(name.substr(kStep.size()))) return std::nullopt;
  name.remove_prefix(kStep.size());
  int64_t step = 0;
  const auto [end, code] = std::from_chars(name.data(), name.data() + name.size(), step);
  return code == std::errc() && std::string_view(step_name(step)).substr(kStep.size()) == name ? std::optional(step)
                                                                                               : std::nullopt;
}

std::optional<int64_t> replaced_step_of(std::string_view name) {
  constexpr std::string_view kPrefix = kReplacedPrefix;
  if (!name.starts_with(kPrefix)) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  const size_t dash = name.rfind('-');
  if (dash == name.npos || !is_number(name.substr(dash + 1))) return std::nullopt;
  return step_of(name.substr(0, dash));
}

bool is_temporary(std::string_view name) {
  if (!name.starts_with(kTemporary)) return false;
  const std::vector<std::string> parts = split(name.substr(kTemporary.size()), '-');
  return parts.size() == 2 && is_number(parts[0]) && is_number(parts[1]);
}

bool is_trash(std::string_view name) {
  if (!name.starts_with(kTrash)) return false;
  const std::string original(name.substr(kTrash.size()));
  return step_of(original) || replaced_step_of("." + original) || is_temporary("." + original);
}

std::string free_name(FileSystem& fs, const std::string& directory, const std::string& prefix, int64_t step) {
  for (int k = 1;; ++k) {
    const std::string path = directory + "/" + prefix + step_name(step) + "-" + std::to_string(k);
    if (!fs.exists(path)) return path;
  }
}

std::vector<Candidate> list_candidates(FileSystem& fs, const std::string& directory) {
  std::vector<std::tuple<int64_t, bool, std::string>> found;  // step, is the step's own directory, name
  for (const std::string& name : fs.list(directory)) {
    if (const auto step = step_of(name)) found.emplace_back(*step, true, name);
    if (const auto step = replaced_step_of(name)) found.emplace_back(*step, false, name);
  }
  std::sort(found.rbegin(), found.rend());
  std::vector<Candidate> candidates;
  candidates.reserve(found.size());
  for (const auto& [step, own, name] : found) candidates.push_back({step, directory + "/" + name});
  return candidates;
}

}  // namespace gputrain

#pragma once
// Small specs for the tests of spec, and what parsing them says.
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "spec/spec.h"

namespace gputrain {

// Valid; each line can be replaced. Line numbers matter to the tests.
inline constexpr std::string_view kGood = R"(name: demo
seed: 7
model: {name: mlp, args: {hidden: [32]}}
data:
  train: {format: synthetic, samples: 100, shape: [1, 28, 28], num_classes: 10}
train:
  epochs: 2
  global_batch: 16
optimizer:
  name: adamw
  lr: 1e-3
)";

inline std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  if (at == std::string::npos) throw std::logic_error("the test's text lacks " + from);
  return text.replace(at, from.size(), to);
}

inline std::string good_with(const std::string& from, const std::string& to) {
  return replaced(std::string(kGood), from, to);
}

inline Spec parse(const std::string& text, std::vector<Override> overrides = {}) {
  return parse_spec({text, "a.yaml", std::move(overrides)});
}

inline Spec parse_with(const std::vector<std::string>& sets) {
  std::vector<Override> overrides;
  for (const auto& set : sets) overrides.push_back(parse_set(set));
  return parse(std::string(kGood), overrides);
}

// The rendered errors of a bad spec; empty when it is good.
template <class F>
std::vector<Error> errors_of(F&& attempt) {
  try {
    attempt();
  } catch (const ErrorList& list) {
    return list.errors;
  }
  return {};
}

inline std::vector<std::string> rendered(const std::vector<Error>& errors) {
  std::vector<std::string> texts;
  for (const auto& error : errors) texts.push_back(error.render());
  return texts;
}

inline std::vector<std::string> problems(const std::string& text, std::vector<Override> overrides = {}) {
  return rendered(errors_of([&] { parse(text, std::move(overrides)); }));
}

inline std::vector<std::string> problems_with(const std::vector<std::string>& sets) {
  return rendered(errors_of([&] { parse_with(sets); }));
}

inline std::string read_repo_file(const std::string& path) {
  std::ifstream file(std::string(GPUTRAIN_SOURCE_DIR) + "/" + path);
  std::stringstream text;
  text << file.rdbuf();
  if (!file) throw std::runtime_error("cannot read " + path);
  return text.str();
}

}  // namespace gputrain

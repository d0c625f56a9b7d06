#pragma once
// Which classes labels, masks and tokens may have.
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace gputrain {

struct ClassRange {
  std::optional<int64_t> classes;       // nullopt: not known, anything goes
  std::optional<int64_t> ignore_index;  // allowed besides [0, classes)

  bool has(int64_t value) const {
    return !classes || static_cast<uint64_t>(value) < static_cast<uint64_t>(*classes) || value == ignore_index;
  }
  std::optional<size_t> first_outside(std::span<const int64_t> values) const;
  // "has label 56 at sample 12, which is not in [0, 10)": the predicate of an error.
  std::string problem(const std::string& noun, int64_t value, const std::string& place) const;
};

}  // namespace gputrain

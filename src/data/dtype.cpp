#include "data/dtype.h"

#include <array>
#include <utility>

#include "util/text.h"

namespace gputrain {
namespace {

constexpr std::array<std::pair<std::string_view, at::ScalarType>, 9> kTypes{{{"uint8", at::kByte},
                                                                             {"int8", at::kChar},
                                                                             {"int16", at::kShort},
                                                                             {"int32", at::kInt},
                                                                             {"int64", at::kLong},
                                                                             {"float16", at::kHalf},
                                                                             {"bfloat16", at::kBFloat16},
                                                                             {"float32", at::kFloat},
                                                                             {"float64", at::kDouble}}};

}  // namespace

std::string_view dtype_name(at::ScalarType type) {
  for (const auto& [name, known] : kTypes) {
    if (known == type) return name;
  }
  return "unsupported";
}

std::optional<at::ScalarType> dtype_from_name(std::string_view name) {
  for (const auto& [known, type] : kTypes) {
    if (known == name) return type;
  }
  return std::nullopt;
}

std::vector<std::string> dtype_names() {
  std::vector<std::string> names;
  names.reserve(std::size(kTypes));
  for (const auto& [name, type] : kTypes) names.emplace_back(name);
  return names;
}

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(shape[i]);
  }
  text += ']';
  return text;
}

}  // namespace gputrain

#pragma once
// The element types of data files, by the names that NumPy and PyTorch use.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>

namespace gputrain {

std::string_view dtype_name(at::ScalarType type);  // "float32"; "unsupported" for a type that no data file has
std::optional<at::ScalarType> dtype_from_name(std::string_view name);
std::vector<std::string> dtype_names();

std::string shape_text(const std::vector<int64_t>& shape);  // "[3, 32, 32]", "[]"

}  // namespace gputrain

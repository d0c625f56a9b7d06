#include "ckpt/safetensors_dtype.h"

#include <algorithm>

namespace gputrain {
namespace {

constexpr SafetensorsDtype kDtypes[] = {
    {at::kDouble, "F64", 8}, {at::kFloat, "F32", 4}, {at::kHalf, "F16", 2},  {at::kBFloat16, "BF16", 2},
    {at::kLong, "I64", 8},   {at::kInt, "I32", 4},   {at::kShort, "I16", 2}, {at::kChar, "I8", 1},
    {at::kByte, "U8", 1},    {at::kBool, "BOOL", 1},
};

template <typename Predicate>
const SafetensorsDtype* find(Predicate matches) {
  const auto* found = std::find_if(std::begin(kDtypes), std::end(kDtypes), matches);
  return found == std::end(kDtypes) ? nullptr : found;
}

}  // namespace

std::span<const SafetensorsDtype> safetensors_dtypes() {
  return kDtypes;
}

const SafetensorsDtype* find_safetensors_dtype(at::ScalarType scalar_type) {
  return find([&](const SafetensorsDtype& row) { return row.scalar_type == scalar_type; });
}

const SafetensorsDtype* find_safetensors_dtype(std::string_view name) {
  return find([&](const SafetensorsDtype& row) { return row.name == name; });
}

}  // namespace gputrain

#pragma once
// The element types that our safetensors files hold.
#include <span>
#include <string>
#include <string_view>

#include <c10/core/ScalarType.h>

namespace gputrain {

struct SafetensorsDtype {
  at::ScalarType scalar_type;
  std::string_view name;
  int size;  // bytes, which is also the alignment
};

std::span<const SafetensorsDtype> safetensors_dtypes();
const SafetensorsDtype* find_safetensors_dtype(at::ScalarType scalar_type);  // nullptr: not one of ours
const SafetensorsDtype* find_safetensors_dtype(std::string_view name);

}  // namespace gputrain

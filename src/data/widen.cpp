#include "data/widen.h"

#include <cstring>

#include "util/error.h"

namespace gputrain {
namespace {

// In ascending order: value i is written where no later one is still to be read, for each is at most as wide as T.
template <typename From, typename To>
void widen_from(const char* from, std::span<To> values) {
  static_assert(sizeof(From) <= sizeof(To));
  for (To& value : values) {
    From narrow;
    std::memcpy(&narrow, from, sizeof narrow);
    from += sizeof narrow;
    value = static_cast<To>(narrow);  // NOLINT(bugprone-signed-char-misuse): an int8 is a number here
  }
}

template <typename To>
void widen_to(at::ScalarType type, const void* memory, std::span<To> values) {
  const auto* from = static_cast<const char*>(memory);
  switch (type) {
    case at::kByte:
      return widen_from<uint8_t>(from, values);
    case at::kChar:
      return widen_from<int8_t>(from, values);
    case at::kShort:
      return widen_from<int16_t>(from, values);
    case at::kUInt16:
      return widen_from<uint16_t>(from, values);
    case at::kInt:
      return widen_from<int32_t>(from, values);
    case at::kUInt32:
      return widen_from<uint32_t>(from, values);
    default:
      GP_CHECK(type == at::kLong, "only integers are widened");
      return widen_from<int64_t>(from, values);
  }
}

}  // namespace

void widen(at::ScalarType type, const void* from, std::span<int64_t> values) {
  widen_to(type, from, values);
}

void widen(at::ScalarType type, const void* from, std::span<double> values) {
  widen_to(type, from, values);
}

}  // namespace gputrain

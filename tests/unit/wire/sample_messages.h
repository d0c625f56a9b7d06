#pragma once
// One message of every type, each field different from its default and from its neighbours.
#include <cstdint>
#include <string>
#include <vector>

#include "wire/message_fields.h"

namespace gputrain::testing {

// Fills fields with values that grow, so that swapped fields show.
class Filler {
 public:
  explicit Filler(int64_t first) : next_(first) {}

  void fill(std::string& value) { value = "text \"" + std::to_string(next_++) + "\" \n\xC3\xA9"; }
  void fill(bool& value) { value = true; }
  void fill(int& value) { value = static_cast<int>(next_++); }
  void fill(int64_t& value) { value = (int64_t{1} << 62) + next_++; }
  void fill(uint64_t& value) { value = (uint64_t{1} << 63) + static_cast<uint64_t>(next_++); }
  void fill(Json& value) { value = {{"b", next_++}, {"a", {1.5, nullptr, "x", true, Json::object()}}}; }
  void fill(StopReason& value) { value = StopReason::kMaxDuration; }
  void fill(ErrorKind& value) { value = ErrorKind::kCheckpoint; }
  void fill(std::vector<SlotAssignment>& value) {
    value.resize(2);
    for (auto& slot : value) fill(slot);
  }
  template <class M>
  requires requires(const M* message) { wire::fields_of(message); }
  void fill(M& message) {
    std::apply([&](auto... field) { (fill(message.*field.member), ...); },
               wire::fields_of(static_cast<const M*>(nullptr)));
  }

 private:
  int64_t next_;
};

template <size_t... I>
std::vector<Message> make_samples(int64_t first, std::index_sequence<I...>) {
  std::vector<Message> samples;
  const auto add = [&](auto message) {
    Filler(first).fill(message);
    samples.push_back(message);
  };
  (add(std::variant_alternative_t<I, Message>()), ...);
  return samples;
}

inline std::vector<Message> every_message(int64_t first = 1000) {
  return make_samples(first, std::make_index_sequence<std::variant_size_v<Message>>());
}

}  // namespace gputrain::testing

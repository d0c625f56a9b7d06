#include "wire/messages.h"

#include <array>
#include <limits>
#include <type_traits>
#include <utility>

#include "gputrain_version.h"
#include "wire/message_fields.h"

namespace gputrain {
namespace {

using wire::fields_of;
using wire::kTypes;

constexpr std::pair<StopReason, std::string_view> kReasons[] = {
    {StopReason::kNone, "none"},
    {StopReason::kPreempted, "preempted"},
    {StopReason::kUserStop, "stopped"},
    {StopReason::kInterrupted, "interrupted"},
    {StopReason::kMaxDuration, "max_duration"},
};

[[noreturn]] void refuse(const std::string& where, const std::string& problem) {
  throw Error(ErrorKind::kInternal, "malformed message: " + problem, where,
              "all programs of a run must be of one version");
}

template <class T>
concept HasFields = requires(const T* value) {
  fields_of(value);
};

template <class T>
Json write(const T& value);

template <HasFields M>
Json write_fields(const M& message) {
  Json object = Json::object();
  std::apply([&](auto... field) { ((object[field.name] = write(message.*field.member)), ...); },
             fields_of(static_cast<const M*>(nullptr)));
  return object;
}

template <class T>
Json write(const T& value) {
  if constexpr (std::is_same_v<T, StopReason>) {
    return std::string(to_string(value));
  } else if constexpr (std::is_same_v<T, ErrorKind>) {
    return std::string(error_word(value));
  } else if constexpr (std::is_same_v<T, std::vector<SlotAssignment>>) {
    Json array = Json::array();
    for (const auto& item : value) array.push_back(write_fields(item));
    return array;
  } else if constexpr (HasFields<T>) {
    return write_fields(value);
  } else {
    return value;
  }
}

void read(const Json& json, const std::string& where, Json& value) {
  value = json;
}

void read(const Json& json, const std::string& where, std::string& value) {
  if (!json.is_string()) refuse(where, "expected a string");
  value = json.get_ref<const std::string&>();
}

void read(const Json& json, const std::string& where, bool& value) {
  if (!json.is_boolean()) refuse(where, "expected true or false");
  value = json.get<bool>();
}

template <class T>
requires std::is_integral_v<T>
void read(const Json& json, const std::string& where, T& value) {
  if (!json.is_number_integer()) refuse(where, "expected a whole number");
  // A number above the range of int64_t is held as unsigned; get<> would wrap it silently.
  const bool fits =
      json.is_number_unsigned() ? std::in_range<T>(json.get<uint64_t>()) : std::in_range<T>(json.get<int64_t>());
  if (!fits) refuse(where, "number out of range");
  value = json.get<T>();
}

void read(const Json& json, const std::string& where, StopReason& value) {
  std::string word;
  read(json, where, word);
  value = stop_reason_from(word);
  if (to_string(value) != word) refuse(where, "unknown word");
}

void read(const Json& json, const std::string& where, ErrorKind& value) {
  std::string word;
  read(json, where, word);
  value = error_kind(word);
  if (error_word(value) != word) refuse(where, "unknown word");
}

template <HasFields M>
void read(const Json& json, const std::string& where, M& message);

void read(const Json& json, const std::string& where, std::vector<SlotAssignment>& value) {
  if (!json.is_array()) refuse(where, "expected a list");
  value.clear();
  for (const auto& item : json) {
    const std::string place = where + "[" + std::to_string(value.size()) + "]";
    read(item, place, value.emplace_back());
  }
}

template <HasFields M>
void read(const Json& json, const std::string& where, M& message) {
  constexpr auto fields = fields_of(static_cast<const M*>(nullptr));
  if (!json.is_object()) refuse(where, "expected an object");
  const auto read_one = [&](const auto& field) {
    const auto item = json.find(field.name);
    if (item == json.end()) refuse(where + "." + field.name, "missing");
    read(*item, where + "." + field.name, message.*field.member);
  };
  std::apply([&](const auto&... field) { (read_one(field), ...); }, fields);
  if (json.size() != std::tuple_size_v<decltype(fields)>) refuse(where, "unknown field");
}

template <size_t I>
Message read_message(const Json& body) {
  std::variant_alternative_t<I, Message> message;
  read(body, std::string(kTypes[I].name), message);
  return message;
}

template <size_t... I>
constexpr auto make_readers(std::index_sequence<I...>) {
  return std::array{&read_message<I>...};
}

}  // namespace

std::string_view to_string(StopReason reason) {
  for (const auto& [candidate, word] : kReasons) {
    if (candidate == reason) return word;
  }
  return "none";
}

StopReason stop_reason_from(std::string_view word) {
  for (const auto& [reason, candidate] : kReasons) {
    if (candidate == word) return reason;
  }
  return StopReason::kNone;
}

uint16_t message_type(const Message& message) {
  return kTypes[message.index()].type;
}
std::string_view message_name(const Message& message) {
  return kTypes[message.index()].name;
}

Json to_json(const Message& message) {
  return std::visit([](const auto& alternative) { return write_fields(alternative); }, message);
}

Message message_from_json(uint16_t type, const Json& body) {
  static constexpr auto kReaders = make_readers(std::make_index_sequence<std::variant_size_v<Message>>());
  for (size_t i = 0; i < std::size(kTypes); ++i) {
    if (kTypes[i].type == type) return kReaders[i](body);
  }
  refuse("type " + std::to_string(type), "unknown message type");
}

std::string_view program_version() {
  return GPUTRAIN_VERSION;
}

}  // namespace gputrain

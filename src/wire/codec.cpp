#include "wire/codec.h"

#include "util/error.h"
#include "util/foreign_json.h"

namespace gputrain {
namespace {

constexpr std::string_view kMagic = "GPTW";
constexpr size_t kHeaderSize = 12;

void put(std::string& out, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out.push_back(static_cast<char>(value >> (8 * i) & 0xFF));
}

uint32_t get(std::string_view bytes, size_t offset, int count) {
  uint32_t value = 0;
  for (int i = 0; i < count; ++i)
    value |= static_cast<uint32_t>(static_cast<unsigned char>(bytes[offset + i])) << (8 * i);
  return value;
}

[[noreturn]] void refuse(const std::string& problem) {
  throw Error(ErrorKind::kInternal, "malformed frame: " + problem, "wire",
              "all programs of a run must be of one version, and nothing else may write to their connection");
}

}  // namespace

std::string encode(const Message& message) {
  const std::string body = dump_line(to_json(message));
  if (body.size() > kMaxPayload) {
    throw Error(ErrorKind::kInternal, std::string(message_name(message)) + " has " + std::to_string(body.size()) +
                                          " bytes; a message may have " + std::to_string(kMaxPayload));
  }
  std::string frame(kMagic);
  frame.reserve(kHeaderSize + body.size());
  put(frame, kWireVersion, 2);
  put(frame, message_type(message), 2);
  put(frame, body.size(), 4);
  return frame += body;
}

void Decoder::feed(std::string_view bytes) {
  // Consumed bytes go when they are the larger part: each byte is moved once on average.
  if (consumed_ * 2 > buffer_.size()) {
    buffer_.erase(0, consumed_);
    consumed_ = 0;
  }
  buffer_.append(bytes);
}

std::optional<Message> Decoder::next() {
  const std::string_view pending = std::string_view(buffer_).substr(consumed_);
  if (pending.substr(0, kMagic.size()) != kMagic.substr(0, pending.size())) refuse("it does not start with GPTW");
  if (pending.size() < kHeaderSize) return std::nullopt;
  const uint32_t version = get(pending, 4, 2), type = get(pending, 6, 2), length = get(pending, 8, 4);
  if (version != kWireVersion) {
    refuse("protocol version " + std::to_string(version) + ", this program speaks " + std::to_string(kWireVersion));
  }
  if (length > kMaxPayload) refuse(std::to_string(length) + " bytes announced, limit " + std::to_string(kMaxPayload));
  if (pending.size() < kHeaderSize + length) return std::nullopt;
  const std::string_view body = pending.substr(kHeaderSize, length);
  if (nested_deeper_than(kMaxJsonNesting, body)) refuse("nested deeper than " + std::to_string(kMaxJsonNesting));
  Message message = message_from_json(static_cast<uint16_t>(type), parse_json(body, "wire"));
  last_frame_bytes_ = kHeaderSize + length;
  consumed_ += last_frame_bytes_;
  return message;
}

}  // namespace gputrain

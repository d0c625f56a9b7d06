#pragma once
// Frames: magic "GPTW", u16 version, u16 message type, u32 payload length, payload (JSON, UTF-8); little-endian.
// WIRE.md has golden bytes.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "wire/messages.h"

namespace gputrain {

inline constexpr uint16_t kWireVersion = 2;
inline constexpr uint32_t kMaxPayload = 16u << 20;

std::string encode(const Message& message);

// Reassembles frames from a byte stream. Never trusts its input: any bytes at all may be fed.
class Decoder {
 public:
  void feed(std::string_view bytes);
  // The next whole message; nullopt when more bytes are needed. Throws Error(kInternal) that says what is wrong (bad
  // magic, other version, payload too large, unknown type, malformed body); the decoder is unusable afterwards.
  std::optional<Message> next();
  size_t last_frame_bytes() const { return last_frame_bytes_; }  // header and payload of the message that next() gave

 private:
  std::string buffer_;
  size_t consumed_ = 0;
  size_t last_frame_bytes_ = 0;
};

}  // namespace gputrain

#pragma once
// Reads tests/golden/*.json: what Python PyTorch computed (tests/parity/reference_golden.py says how).
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>

#include <ATen/ATen.h>
#include <ATen/Version.h>

#include "util/json.h"

namespace gputrain::testing {

inline Json golden(const std::string& name) {
  const std::string path = std::string(GPUTRAIN_SOURCE_DIR) + "/tests/golden/" + name;
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return parse_json(text.str(), path);
}

// The entry of an object keyed by CPU capability that this machine must match to the bit. AVX512 is left out where it
// equals AVX2.
inline const Json& for_this_cpu(const Json& by_capability) {
  const std::string capability = at::get_cpu_capability();
  return by_capability.contains(capability) ? by_capability.at(capability) : by_capability.at("AVX2");
}

inline at::ScalarType scalar_type(const std::string& dtype) {
  return dtype == "float64" ? at::kDouble : at::kFloat;
}

inline at::Tensor from_hex(const std::string& hex, at::ScalarType type, at::IntArrayRef shape) {
  at::Tensor out = at::empty(shape, type);
  TORCH_CHECK(hex.size() == 2 * out.nbytes(), "golden tensor of ", hex.size() / 2, " bytes for shape ", shape);
  auto* bytes = static_cast<uint8_t*>(out.data_ptr());
  for (size_t i = 0; i < out.nbytes(); ++i)
    bytes[i] = static_cast<uint8_t>(std::stoi(hex.substr(2 * i, 2), nullptr, 16));
  return out;
}

inline std::string to_hex(const at::Tensor& tensor) {
  const at::Tensor data = tensor.detach().contiguous();
  const auto* bytes = static_cast<const uint8_t*>(data.data_ptr());
  std::string out;
  for (size_t i = 0; i < data.nbytes(); ++i) {
    constexpr char kDigits[] = "0123456789abcdef";
    out += kDigits[bytes[i] >> 4];
    out += kDigits[bytes[i] & 15];
  }
  return out;
}

// Numbers in [-1, 1) that Python makes too.
inline at::Tensor ramp(at::IntArrayRef shape, at::ScalarType type, int64_t salt = 0) {
  at::Tensor i = at::arange(c10::multiply_integers(shape), at::kLong) + salt * 1000003;
  at::Tensor bits = (i * 2654435761).remainder(int64_t{1} << 32);
  return (bits.to(at::kDouble) / 2147483648.0 - 1).to(type).reshape(shape);
}

// Sum over 32-bit words w_i of (w_i + 1) (2 i + 1), modulo 2^64, as 16 hex digits.
inline std::string checksum(const at::Tensor& tensor) {
  const at::Tensor data = tensor.detach().contiguous();
  const auto* words = static_cast<const uint32_t*>(data.data_ptr());
  uint64_t sum = 0;
  for (uint64_t i = 0; i < data.nbytes() / 4; ++i) sum += (uint64_t{words[i]} + 1) * (2 * i + 1);
  std::ostringstream out;
  out.width(16);
  out.fill('0');
  out << std::hex << sum;
  return out.str();
}

// max|a - b| / max|b|.
inline double relative_difference(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor x = a.detach().to(at::kDouble), y = b.detach().to(at::kDouble);
  return (x - y).abs().max().item<double>() / std::max(y.abs().max().item<double>(), 1e-300);
}

}  // namespace gputrain::testing

#include <algorithm>
#include <bit>
#include <set>

#include <ATen/ATen.h>

#include "ckpt/safetensors.h"
#include "ckpt/safetensors_dtype.h"
#include "util/error.h"
#include "util/json.h"
#include "util/text.h"

namespace gputrain {
namespace {

static_assert(std::endian::native == std::endian::little,
              "tensor memory is written as it is: the format is little-endian");

constexpr int64_t kDevicePiece = int64_t{64} << 20;  // host memory that a device tensor's copy may take, bytes

[[noreturn]] void refuse(const std::string& name, const std::string& why) {
  throw Error(ErrorKind::kCheckpoint, "tensor \"" + printable(name) + "\" cannot be saved: " + why);
}

const SafetensorsDtype& dtype_of(const std::string& name, const at::Tensor& tensor) {
  if (!tensor.defined()) refuse(name, "it is undefined");
  if (tensor.layout() != at::kStrided || tensor.is_meta()) refuse(name, "it is not dense");
  const SafetensorsDtype* dtype = find_safetensors_dtype(tensor.scalar_type());
  if (dtype == nullptr)
    refuse(name, std::string("its type ") + at::toString(tensor.scalar_type()) + " is not supported");
  return *dtype;
}

std::string json_text(const std::string& name) {
  try {
    return Json(name).dump();
  } catch (const Json::exception&) {
    refuse(name, "its name is not valid UTF-8");
  }
}

std::string json_shape(at::IntArrayRef shape) {
  return Json(shape.vec()).dump();
}

std::string length_prefix(uint64_t length) {
  std::string bytes(sizeof length, '\0');
  for (char& byte : bytes) {
    byte = static_cast<char>(length & 0xff);
    length >>= 8;
  }
  return bytes;
}

void append_bytes(WritableFile& file, const at::Tensor& dense_on_host) {
  file.append({static_cast<const char*>(dense_on_host.const_data_ptr()), dense_on_host.nbytes()});
}

void append_tensor(WritableFile& file, const at::Tensor& tensor) {
  const at::Tensor dense = tensor.detach().contiguous();
  if (dense.device().is_cpu()) return append_bytes(file, dense);
  const at::Tensor flat = dense.view({-1});
  const int64_t piece = std::max<int64_t>(1, kDevicePiece / static_cast<int64_t>(dense.element_size()));
  for (int64_t start = 0; start < flat.numel(); start += piece) {
    append_bytes(file, flat.narrow(0, start, std::min(piece, flat.numel() - start)).cpu());
  }
}

}  // namespace

std::string safetensors_dtype(at::ScalarType dtype) {
  const SafetensorsDtype* row = find_safetensors_dtype(dtype);
  if (row == nullptr) {
    throw Error(ErrorKind::kCheckpoint, std::string("safetensors files of ours cannot hold ") + at::toString(dtype));
  }
  return std::string(row->name);
}

SafetensorsPlan plan_safetensors(const NamedTensors& tensors) {
  SafetensorsPlan plan;
  std::set<std::string> names{"__metadata__"};
  for (const auto& item : tensors) {
    dtype_of(item.first, item.second);
    if (!names.insert(item.first).second) refuse(item.first, "the name is used twice or reserved");
    plan.order.push_back(&item);
  }
  std::sort(plan.order.begin(), plan.order.end(), [](const auto* a, const auto* b) {
    const auto size_a = a->second.element_size(), size_b = b->second.element_size();
    return size_a != size_b ? size_a > size_b : a->first < b->first;
  });

  std::string header = R"({"__metadata__":{"format":"pt"})";
  int64_t offset = 0;
  for (const auto* item : plan.order) {
    const int64_t end = offset + static_cast<int64_t>(item->second.nbytes());
    header += ',';
    header += json_text(item->first);
    header += R"(:{"dtype":")";
    header += dtype_of(item->first, item->second).name;
    header += R"(","shape":)";
    header += json_shape(item->second.sizes());
    header += R"(,"data_offsets":[)" + std::to_string(offset) + "," + std::to_string(end) + "]}";
    offset = end;
  }
  header += "}";
  header.resize((header.size() + 7) / 8 * 8, ' ');  // the data starts 8-aligned: memory-mapping readers rely on it
  plan.prefix = length_prefix(header.size()) + header;
  plan.size = static_cast<int64_t>(plan.prefix.size()) + offset;
  return plan;
}

void write_safetensors(WritableFile& file, const SafetensorsPlan& plan) {
  file.append(plan.prefix);
  for (const auto* item : plan.order) append_tensor(file, item->second);
}

}  // namespace gputrain

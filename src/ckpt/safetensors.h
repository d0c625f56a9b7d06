#pragma once
// The safetensors format: u64 N (little-endian), N bytes of JSON, data. FORMAT.md says what we write and what we
// accept.
//
// Errors are of kind kCheckpoint for what is wrong with the bytes; those of the file system pass through unchanged.
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "ckpt/checkpoint.h"
#include "ckpt/xxh3.h"
#include "sys/fs.h"

namespace gputrain {

// "F32" and so on. Throws for a type that safetensors files of ours cannot hold.
std::string safetensors_dtype(at::ScalarType dtype);

// A file that is going to be written: its order and header. Refers to the tensors it was made from, which must outlive
// it.
struct SafetensorsPlan {
  std::vector<const std::pair<std::string, at::Tensor>*> order;  // dtype alignment descending, then name
  std::string prefix;                                            // length and padded header: all before the data
  int64_t size = 0;                                              // of the whole file, bytes
};
// Throws for duplicate or reserved names, and for tensors that are not dense.
SafetensorsPlan plan_safetensors(const NamedTensors& tensors);

// Where each tensor's bytes go as they become ready: appended in order, straight from CPU memory, or from a device by
// pieces.
void write_safetensors(WritableFile& file, const SafetensorsPlan& plan);

// One tensor of a file that is being read.
struct SafetensorsEntry {
  std::string name;
  std::string dtype;  // as written in the header
  at::ScalarType scalar_type;
  std::vector<int64_t> shape;
  int64_t offset = 0;  // from the start of the file
  int64_t bytes = 0;
};

// Reads and checks the header of a file; entries in the order of their offsets. `hash`, when given, takes the bytes
// read.
std::vector<SafetensorsEntry> read_safetensors_header(FileSystem& fs, const std::string& path, Xxh3* hash = nullptr);

// Reads the whole file once, front to back, into CPU tensors. `hash`, when given, takes every byte. Allocates nothing
// that is larger than the file.
std::map<std::string, at::Tensor> read_safetensors(FileSystem& fs, const std::string& path, Xxh3* hash = nullptr);

}  // namespace gputrain

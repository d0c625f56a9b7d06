#pragma once
// One headerless array in a file, a sample after another; and such an array as the inputs or targets of a data set.
#include <cstdint>
#include <string>

#include "data/class_range.h"
#include "data/data_file.h"
#include "data/pipeline.h"
#include "util/json.h"

namespace gputrain {

class ArgReader;

// As it is stored, little-endian.
class RawArray {
 public:
  // `args`: {path, shape, dtype, offset}. Error(kSpec) for these, Error(kData) for a file that does not hold a whole
  // number of samples.
  RawArray(const Json& args, const std::string& role);

  const SampleSpec& spec() const { return spec_; }
  bool holds_integers() const { return at::isIntegralType(spec_.type, false); }
  const DataFile& file() const { return file_; }
  DataFile& file() { return file_; }
  int64_t count() const { return (file_.size() - offset_) / sample_bytes_; }
  int64_t sample_bytes() const { return sample_bytes_; }
  void read(int64_t id, std::span<char> sample) const;  // sample_bytes() of them
  Json fingerprint() const;

 private:
  RawArray(const ArgReader& args, const std::string& role);

  SampleSpec spec_;
  int64_t offset_;
  int64_t sample_bytes_;
  DataFile file_;
};

// What a column delivers of an array.
enum class ColumnValues {
  kAsStored,
  kClasses,  // integers as int64, each checked
  kNumbers   // integers as float64, floating-point values as stored
};

struct ColumnOptions {
  ColumnValues values = ColumnValues::kAsStored;
  ClassRange range;            // kClasses
  std::string noun = "class";  // of one value, for messages
};

// Thread-safe.
class RawColumn {
 public:
  // Error(kData) for a value outside the range, where the file is small enough to look at all of it (64 MiB).
  RawColumn(RawArray array, ColumnOptions options);

  const RawArray& array() const { return array_; }
  SampleSpec spec() const;  // as delivered
  // Writes one sample of spec(). Error(kData) names a value outside the range.
  void read(int64_t id, void* out) const;

 private:
  void read_classes(int64_t id, std::span<int64_t> out) const;
  void check_all() const;

  RawArray array_;
  ColumnOptions options_;
};

}  // namespace gputrain

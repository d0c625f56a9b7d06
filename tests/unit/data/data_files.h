#pragma once
// Data files for the tests of src/data: a private folder, idx bytes, gzip, and the Error that an action must throw.
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include "data/loader.h"
#include "util/error.h"

namespace gputrain::test {

// Removed with everything in it.
class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "gputrain-data-XXXXXX").string();
    if (!::mkdtemp(name.data())) throw std::runtime_error("mkdtemp");
    path_ = name;
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string path(const std::string& name) const { return path_ + "/" + name; }
  std::string write(const std::string& name, const std::string& bytes) const {
    std::ofstream(path(name), std::ios::binary) << bytes;
    return path(name);
  }
  template <typename T>
  std::string write_values(const std::string& name, const std::vector<T>& values,
                           const std::string& before = "") const {
    return write(name, before + std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)));
  }

 private:
  std::string path_;
};

inline std::string idx_header(unsigned char type, const std::vector<uint32_t>& dims) {
  std::string bytes{'\0', '\0', static_cast<char>(type), static_cast<char>(dims.size())};
  for (uint32_t dim : dims) {
    for (int shift : {24, 16, 8, 0}) bytes += static_cast<char>(dim >> shift & 255);
  }
  return bytes;
}

// The pixel of a test image, and its label: any sample tells which one it is.
inline uint8_t pixel_of(int64_t sample, int64_t at) {
  return static_cast<uint8_t>(sample * 37 + at * 11);
}
inline uint8_t label_of(int64_t sample) {
  return static_cast<uint8_t>(sample % 10);
}

inline std::string idx_images(uint32_t count, uint32_t height = 4, uint32_t width = 5) {
  std::string bytes = idx_header(8, {count, height, width});
  for (int64_t s = 0; s < count; ++s) {
    for (int64_t i = 0; i < height * width; ++i) bytes += static_cast<char>(pixel_of(s, i));
  }
  return bytes;
}

inline std::string idx_labels(uint32_t count) {
  std::string bytes = idx_header(8, {count});
  for (int64_t s = 0; s < count; ++s) bytes += static_cast<char>(label_of(s));
  return bytes;
}

inline std::string gzip(const std::string& bytes) {
  z_stream z{};
  deflateInit2(&z, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&z, bytes.size()), '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  z.avail_in = static_cast<uInt>(bytes.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  deflate(&z, Z_FINISH);
  out.resize(z.total_out);
  deflateEnd(&z);
  return out;
}

// The Error that `action` throws; a test failure and an empty Error when it throws none.
inline Error error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no Error was thrown";
  return Error(ErrorKind::kInternal, "");
}

inline DataSourcePlan idx_plan(const std::string& images, const std::string& labels) {
  return {"idx", Json{{"images", images}, {"labels", labels}}};
}

inline DataSourcePlan raw_plan(const Json& inputs, const Json& targets) {
  return {"raw", Json{{"inputs", inputs}, {"targets", targets}}};
}

// One array of a raw_plan.
inline Json array(const std::string& path, const std::vector<int64_t>& shape, const std::string& dtype,
                  int64_t offset = 0) {
  return {{"path", path}, {"shape", shape}, {"dtype", dtype}, {"offset", offset}};
}

inline std::unique_ptr<Source> synthetic(int64_t samples, const std::vector<int64_t>& shape = {3}) {
  return open_source({"synthetic", Json{{"samples", samples}, {"shape", shape}, {"num_classes", 10}}}, "data.train");
}

}  // namespace gputrain::test

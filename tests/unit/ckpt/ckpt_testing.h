#pragma once
// Small checkpoints for the tests of this folder.
#include <string>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ckpt/checkpoint.h"
#include "ckpt/layout.h"
#include "support/temp_dir.h"
#include "util/error.h"

namespace gputrain::testing {

inline std::string bytes_of(const at::Tensor& tensor) {
  const at::Tensor dense = tensor.contiguous();
  return {static_cast<const char*>(dense.const_data_ptr()), dense.nbytes()};
}

// Different for each step; the same each time it is called.
inline CheckpointContent tiny_content(int64_t step) {
  const at::Tensor base = at::arange(6, at::kFloat).view({2, 3}) + static_cast<double>(step);
  return {
      step,
      {{"fc1.weight", base}, {"fc1.bias", base[0] * 2}, {"bn.num_batches_tracked", at::scalar_tensor(step, at::kLong)}},
      {{"fc1.weight/exp_avg", base * 0.5}, {"fc1.bias/exp_avg", base[0] * 0.25}},
      {{"step", step}, {"updates", step - 1}, {"loss", 0.1 * static_cast<double>(step)}}};
}

// Whether `loaded` is tiny_content(step), to the bit.
inline void expect_tiny(const LoadedCheckpoint& loaded, int64_t step) {
  const CheckpointContent expected = tiny_content(step);
  EXPECT_EQ(loaded.step, step);
  EXPECT_EQ(loaded.state, expected.state);
  const auto compare = [](const NamedTensors& want, const std::map<std::string, at::Tensor>& got) {
    EXPECT_EQ(want.size(), got.size());
    for (const auto& [name, tensor] : want) {
      ASSERT_TRUE(got.contains(name)) << name;
      EXPECT_EQ(got.at(name).scalar_type(), tensor.scalar_type()) << name;
      EXPECT_EQ(got.at(name).sizes(), tensor.sizes()) << name;
      EXPECT_EQ(bytes_of(got.at(name)), bytes_of(tensor)) << name;
    }
  };
  compare(expected.model, loaded.model);
  compare(expected.optimizer, loaded.optimizer);
}

inline CheckpointOptions options_for(const std::string& directory) {
  CheckpointOptions options;
  options.directory = directory;
  options.run_id = "run-1";
  return options;
}

inline void write_file(const std::string& path, std::string_view bytes) {
  FileSystem& fs = real_file_system();
  fs.remove_all(path);
  const auto file = fs.create(path);
  file->append(bytes);
  file->close();
}

// Saves and looks into one checkpoints directory.
class CheckpointTest : public ::testing::Test {
 protected:
  SavedCheckpoint save(int64_t step, std::optional<double> metric = std::nullopt) {
    return CheckpointStore(fs_, options_).save(tiny_content(step), metric);
  }
  std::string at(int64_t step, const std::string& file = "") const {
    return options_.directory + "/" + step_name(step) + (file.empty() ? "" : "/" + file);
  }

  TempDir dir_;
  FileSystem& fs_ = real_file_system();
  CheckpointOptions options_ = options_for(dir_ / "run/checkpoints");
};

// Runs `action`, which must throw an Error of `kind`, and returns it.
template <typename Action>
Error error_of(Action action, ErrorKind kind = ErrorKind::kCheckpoint) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind, kind) << error.render();
    return error;
  }
  ADD_FAILURE() << "nothing was thrown";
  return Error(kind, "nothing was thrown");
}

}  // namespace gputrain::testing

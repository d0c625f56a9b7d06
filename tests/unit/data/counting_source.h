#pragma once
// A source whose samples say which they are, and the id streams of loaders over it.
#include <atomic>
#include <cstring>
#include <functional>
#include <vector>

#include "data/loader.h"
#include "unit/data/data_files.h"

namespace gputrain::test {

// Samples whose content is their id: inputs {id, 2 id} in float32, label id.
class CountingSource : public Source {
 public:
  explicit CountingSource(int64_t size) : size_(size) {}
  int64_t size() const override { return size_; }
  std::vector<int64_t> sample_shape() const override { return {2}; }
  at::ScalarType sample_type() const override { return at::kFloat; }
  at::ScalarType target_type() const override { return at::kLong; }
  std::vector<int64_t> target_shape() const override { return {}; }
  void read(int64_t id, void* sample, void* target) const override {
    ++reads;
    on_read(id);
    const float values[2] = {static_cast<float>(id), static_cast<float>(2 * id)};
    std::memcpy(sample, values, sizeof values);
    std::memcpy(target, &id, sizeof id);
  }
  Json fingerprint() const override { return Json::object(); }

  std::function<void(int64_t)> on_read = [](int64_t) {};
  mutable std::atomic<int64_t> reads{0};

 private:
  int64_t size_;
};

inline LoaderOptions options_of(int64_t global_batch, int rank = 0, int world = 1, int workers = 1) {
  LoaderOptions options;
  options.shard = {rank, world};
  options.global_batch = global_batch;
  options.workers = workers;
  return options;
}

inline void expect_rows_are_ids(const Batch& batch) {
  const auto rows = static_cast<int64_t>(batch.ids.size());
  ASSERT_GE(rows, 1);
  ASSERT_EQ(batch.inputs.sizes(), (std::vector<int64_t>{rows, 2}));
  ASSERT_EQ(batch.targets.sizes(), (std::vector<int64_t>{rows}));
  ASSERT_EQ(batch.inputs.scalar_type(), at::kFloat);
  for (int64_t i = 0; i < rows; ++i) {
    const int64_t id = batch.ids[static_cast<size_t>(i)];
    ASSERT_EQ(batch.inputs.const_data_ptr<float>()[2 * i], static_cast<float>(id));
    ASSERT_EQ(batch.inputs.const_data_ptr<float>()[2 * i + 1], static_cast<float>(2 * id));
    ASSERT_EQ(batch.targets.const_data_ptr<int64_t>()[i], id);
  }
}

inline std::vector<int64_t> ids_of(const std::vector<Batch>& batches) {
  std::vector<int64_t> ids;
  for (const Batch& batch : batches) ids.insert(ids.end(), batch.ids.begin(), batch.ids.end());
  return ids;
}

inline std::vector<int64_t> next_ids(Loader& loader) {
  auto batches = loader.next_step();
  if (!batches) {
    ADD_FAILURE() << "cancelled";
    return {};
  }
  for (const Batch& batch : *batches) expect_rows_are_ids(batch);
  return ids_of(*batches);
}

using Stream = std::vector<std::vector<int64_t>>;  // ids of each step

inline Stream stream_of(const Source& source, const LoaderOptions& options, int64_t steps, int64_t epoch = 0,
                        int64_t step = 0) {
  const auto loader = make_loader(source, {}, options);
  loader->seek(epoch, step);
  Stream stream;
  for (int64_t i = 0; i < steps; ++i) stream.push_back(next_ids(*loader));
  return stream;
}

}  // namespace gputrain::test

#include "data/loader.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <numeric>
#include <thread>

#include <ATen/ATen.h>

#include "unit/data/data_files.h"

namespace gputrain {
namespace {

using testing::HasSubstr;
using namespace test;
using Clock = std::chrono::steady_clock;

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

LoaderOptions options_of(int64_t global_batch, int rank = 0, int world = 1, int workers = 1) {
  LoaderOptions options;
  options.shard = {rank, world};
  options.global_batch = global_batch;
  options.workers = workers;
  return options;
}

void expect_rows_are_ids(const Batch& batch) {
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

std::vector<int64_t> ids_of(const std::vector<Batch>& batches) {
  std::vector<int64_t> ids;
  for (const Batch& batch : batches) ids.insert(ids.end(), batch.ids.begin(), batch.ids.end());
  return ids;
}

std::vector<int64_t> next_ids(Loader& loader) {
  auto batches = loader.next_step();
  if (!batches) {
    ADD_FAILURE() << "cancelled";
    return {};
  }
  for (const Batch& batch : *batches) expect_rows_are_ids(batch);
  return ids_of(*batches);
}

using Stream = std::vector<std::vector<int64_t>>;  // ids of each step

Stream stream_of(const Source& source, const LoaderOptions& options, int64_t steps, int64_t epoch = 0,
                 int64_t step = 0) {
  const auto loader = make_loader(source, {}, options);
  loader->seek(epoch, step);
  Stream stream;
  for (int64_t i = 0; i < steps; ++i) stream.push_back(next_ids(*loader));
  return stream;
}

// The order contract, independently of the loader: window by window through the permutation.
Stream expected_stream(int64_t samples, int64_t global_batch, bool drop, int64_t steps) {
  const int64_t in_epoch = drop ? samples / global_batch : (samples + global_batch - 1) / global_batch;
  Stream stream;
  for (int64_t s = 0; s < steps; ++s) {
    const SampleOrder order(samples, 1, s / in_epoch);
    std::vector<int64_t> ids;
    const int64_t begin = s % in_epoch * global_batch;
    for (int64_t i = begin; i < std::min(begin + global_batch, samples); ++i) ids.push_back(order[i]);
    stream.push_back(ids);
  }
  return stream;
}

class IdStream : public testing::TestWithParam<std::tuple<int64_t, bool, int>> {};

// Over two epochs: the ranks' shares, one after another, are the window that the order names, for any number of decode
// threads.
TEST_P(IdStream, RanksSplitTheWindow) {
  const auto [samples, drop, world] = GetParam();
  const CountingSource source(samples);
  if (drop && samples < 256) {
    LoaderOptions options = options_of(256, world - 1, world);
    options.drop_tail = true;
    EXPECT_EQ(error_of([&] { make_loader(source, {}, options); }).kind, ErrorKind::kData);
    return;
  }
  const int64_t in_epoch = drop ? samples / 256 : (samples + 255) / 256, steps = 2 * in_epoch + 1;
  const Stream expected = expected_stream(samples, 256, drop, steps);
  for (int workers : {0, 1, 3}) {
    for (int64_t micro : {0, 1, 50, 1000}) {
      Stream joined(static_cast<size_t>(steps));
      for (int rank = 0; rank < world; ++rank) {
        LoaderOptions options = options_of(256, rank, world, workers);
        options.drop_tail = drop;
        options.micro_batch = micro;
        ASSERT_EQ(make_loader(source, {}, options)->steps_per_epoch(), in_epoch);
        const Stream mine = stream_of(source, options, steps);
        for (size_t s = 0; s < mine.size(); ++s) {
          const auto count = static_cast<int64_t>(expected[s].size());
          ASSERT_EQ(static_cast<int64_t>(mine[s].size()), (rank + 1) * count / world - rank * count / world);
          joined[s].insert(joined[s].end(), mine[s].begin(), mine[s].end());
        }
      }
      ASSERT_EQ(joined, expected) << "workers " << workers << ", micro " << micro;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, IdStream,
                         testing::Combine(testing::Values(1003, 514, 5), testing::Bool(), testing::Values(1, 2, 3, 4)));

TEST(Loader, EachEpochHasEverySampleOnce) {
  const CountingSource source(514);
  Stream stream = stream_of(source, options_of(256), 6);
  std::vector<int64_t> all(514);
  std::iota(all.begin(), all.end(), 0);
  for (size_t epoch : {size_t{0}, size_t{1}}) {
    std::vector<int64_t> ids;
    for (size_t s = 3 * epoch; s < 3 * epoch + 3; ++s) ids.insert(ids.end(), stream[s].begin(), stream[s].end());
    EXPECT_NE(ids, all);
    std::sort(ids.begin(), ids.end());
    EXPECT_EQ(ids, all);
  }
  EXPECT_NE(stream[0], stream[3]);
}

TEST(Loader, MicroBatchesCutTheShareInOrder) {
  const CountingSource source(514);
  for (int workers : {0, 2}) {
    LoaderOptions options = options_of(256, 1, 3, workers);  // shares of 85 and, in the last window of 2, of 1
    options.micro_batch = 30;
    const auto loader = make_loader(source, {}, options);
    const std::vector<std::vector<int64_t>> sizes{{30, 30, 25}, {30, 30, 25}, {1}};
    for (const auto& expected : sizes) {
      std::vector<int64_t> rows;
      const auto step = loader->next_step();
      for (const Batch& batch : step.value()) rows.push_back(batch.inputs.size(0));
      EXPECT_EQ(rows, expected);
    }
  }
}

TEST(Loader, RanksWithoutSamplesGetNothingAndDoNotBlock) {
  const CountingSource source(257);  // the second window has one sample: rank 1's, by the floor rule
  for (int workers : {0, 1}) {
    const Stream first = stream_of(source, options_of(256, 0, 2, workers), 6);
    const Stream second = stream_of(source, options_of(256, 1, 2, workers), 6);
    for (size_t s : {1, 3, 5}) {
      EXPECT_EQ(first[s].size() + second[s].size(), 1u);
      EXPECT_EQ(first[s].size(), 0u);
    }
    // Rank 0 of 4 never has one of 3 samples.
    const CountingSource few(3);
    EXPECT_EQ(stream_of(few, options_of(256, 0, 4, workers), 3), Stream(3));
  }
}

TEST(Loader, SeekContinuesAsIfUninterrupted) {
  const CountingSource source(1003);
  for (int workers : {0, 1, 3}) {
    LoaderOptions options = options_of(64, 1, 3, workers);  // 16 steps an epoch
    options.micro_batch = 7;
    const Stream whole = stream_of(source, options, 40);
    for (int64_t place : {0, 1, 5, 15, 16, 17, 31, 39}) {
      const Stream part = stream_of(source, options, 40 - place, place / 16, place % 16);
      EXPECT_EQ(part, Stream(whole.begin() + place, whole.end())) << place;
    }
    EXPECT_EQ(stream_of(source, options, 3, 0, 16), Stream(whole.begin() + 16, whole.begin() + 19));  // an epoch's end
  }
}

TEST(Loader, SeekInMidStreamDropsWhatWasPrefetched) {
  const CountingSource source(1003);
  for (int workers : {0, 1, 3}) {
    const LoaderOptions options = options_of(64, 0, 2, workers);
    const Stream whole = stream_of(source, options, 32);
    const auto loader = make_loader(source, {}, options);
    for (int round = 0; round < 50; ++round) {
      const int64_t place = round * 7 % 30;
      loader->seek(place / 16, place % 16);
      EXPECT_EQ(next_ids(*loader), whole[static_cast<size_t>(place)]);
      EXPECT_EQ(next_ids(*loader), whole[static_cast<size_t>(place) + 1]);
    }
  }
}

TEST(Loader, SeekCostsTheSameWherever) {
  const CountingSource source(1000000);
  LoaderOptions options = options_of(10, 0, 1, 0);
  const auto loader = make_loader(source, {}, options);
  loader->seek(1000000, 99999);
  EXPECT_EQ(next_ids(*loader).size(), 10u);
  EXPECT_EQ(source.reads, 10);
}

// The same sample becomes the same row whichever rank and thread decodes it.
TEST(Loader, AugmentationDependsOnTheSampleAlone) {
  Folder folder;
  const auto source =
      open_source(idx_plan(folder.write("i", idx_images(301, 6, 7)), folder.write("l", idx_labels(301))), "data.train");
  const std::vector<Named> transforms{{"random_horizontal_flip", {{"p", 0.5}}},
                                      {"random_crop", {{"size", 6}, {"padding", 2}}},
                                      {"to_tensor"},
                                      {"normalize", {{"mean", {0.3}}, {"std", {0.4}}}}};
  const auto rows_of = [&](int64_t global_batch, int world, int workers, int64_t micro) {
    std::vector<at::Tensor> rows(301);
    for (int rank = 0; rank < world; ++rank) {
      LoaderOptions options = options_of(global_batch, rank, world, workers);
      options.micro_batch = micro;
      const auto loader = make_loader(*source, transforms, options);
      for (int64_t s = 0; s < loader->steps_per_epoch(); ++s) {
        const auto step = loader->next_step();
        for (const Batch& batch : step.value()) {
          for (size_t i = 0; i < batch.ids.size(); ++i) {
            rows[static_cast<size_t>(batch.ids[i])] = batch.inputs[static_cast<int64_t>(i)].clone();
            EXPECT_EQ(batch.targets[static_cast<int64_t>(i)].item<int64_t>(), batch.ids[i] % 10);
          }
        }
      }
    }
    return at::stack(rows);
  };
  const at::Tensor base = rows_of(64, 1, 0, 0);
  EXPECT_EQ(base.sizes(), (std::vector<int64_t>{301, 1, 6, 6}));
  EXPECT_TRUE(base.equal(rows_of(64, 1, 3, 5)));
  EXPECT_TRUE(base.equal(rows_of(48, 3, 1, 0)));
  EXPECT_TRUE(base.equal(rows_of(301, 4, 3, 7)));
}

TEST(Loader, EvaluationReadsEverySampleOnceInOrder) {
  for (int64_t samples : {1, 3, 10, 101}) {
    const CountingSource source(samples);
    for (int world : {1, 2, 3, 4}) {
      for (int workers : {0, 1, 3}) {
        std::vector<int64_t> joined, steps;
        for (int rank = 0; rank < world; ++rank) {
          LoaderOptions options = options_of(256, rank, world, workers);
          options.micro_batch = 8;
          const auto loader = make_eval_loader(source, {}, options);
          steps.push_back(loader->steps_per_epoch());
          std::vector<int64_t> mine;
          for (int64_t s = 0; s < loader->steps_per_epoch(); ++s) {
            const auto ids = next_ids(*loader);
            EXPECT_LE(ids.size(), 8u);
            mine.insert(mine.end(), ids.begin(), ids.end());
          }
          EXPECT_TRUE(next_ids(*loader).empty());  // the end stays
          EXPECT_TRUE(loader->ready());
          loader->seek(0, 0);
          EXPECT_EQ(next_ids(*loader),
                    std::vector<int64_t>(mine.begin(), mine.begin() + std::min<int64_t>(8, std::ssize(mine))));
          joined.insert(joined.end(), mine.begin(), mine.end());
        }
        std::vector<int64_t> all(static_cast<size_t>(samples));
        std::iota(all.begin(), all.end(), 0);
        EXPECT_EQ(joined, all);
        const int64_t largest = (samples + world - 1) / world;
        EXPECT_EQ(steps, std::vector<int64_t>(static_cast<size_t>(world), (largest + 7) / 8));
      }
    }
  }
}

TEST(Loader, EvaluationBatchDefaultsToTheRanksShare) {
  const CountingSource source(100);
  EXPECT_EQ(make_eval_loader(source, {}, options_of(20, 0, 2))->steps_per_epoch(), 5);
  EXPECT_EQ(make_eval_loader(source, {}, options_of(1, 0, 2))->steps_per_epoch(), 50);  // G < W: at least one
}

TEST(Loader, EvaluationDoesNotAugment) {
  Folder folder;
  const auto source =
      open_source(idx_plan(folder.write("i", idx_images(20)), folder.write("l", idx_labels(20))), "data.val");
  const auto loader =
      make_eval_loader(*source, {{"random_horizontal_flip", {{"p", 1}}}, {"to_tensor"}}, options_of(20));
  const auto step = loader->next_step();
  EXPECT_EQ(step.value()[0].inputs[3][0][0][0].item<float>(), static_cast<float>(pixel_of(3, 0)) / 255.f);
}

TEST(Loader, TailDropThatLeavesNothingIsAnError) {
  const CountingSource source(255);
  LoaderOptions options = options_of(256);
  options.drop_tail = true;
  const Error error = error_of([&] { make_loader(source, {}, options); });
  EXPECT_EQ(error.kind, ErrorKind::kData);
  EXPECT_THAT(error.message, HasSubstr("255 samples, fewer than one global batch of 256"));
  EXPECT_THAT(error.hint, HasSubstr("tail: use"));
}

TEST(Loader, ErrorsOfADecodeThreadComeInOrderAndStay) {
  for (int workers : {0, 1, 3}) {
    CountingSource source(100);
    source.on_read = [](int64_t id) {
      if (id == 35) throw Error(ErrorKind::kData, "sample 35 is damaged", "file");
    };
    LoaderOptions options = options_of(10, 0, 1, workers);
    options.shuffle = false;
    const auto loader = make_loader(source, {}, options);
    for (int64_t s = 0; s < 3; ++s) EXPECT_EQ(next_ids(*loader).front(), 10 * s);
    for (int attempt = 0; attempt < 2; ++attempt) {
      const Error error = error_of([&] { loader->next_step(); });
      EXPECT_EQ(error.kind, ErrorKind::kData);
      EXPECT_EQ(error.message, "sample 35 is damaged");
      EXPECT_TRUE(loader->ready());
    }
    loader->seek(0, 4);
    EXPECT_EQ(next_ids(*loader).front(), 40);
  }
}

// A source that lets no sample through until opened.
class Gate {
 public:
  void wait() {
    std::unique_lock lock(mutex_);
    ++waiting_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return open_; });
  }
  void wait_for_arrival() {
    std::unique_lock lock(mutex_);
    ASSERT_TRUE(changed_.wait_for(lock, std::chrono::seconds(10), [this] { return waiting_ > 0; }));
  }
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int waiting_ = 0;
  bool open_ = false;
};

TEST(Loader, CancelWakesAWaitingConsumer) {
  Gate gate;
  CountingSource source(100);
  source.on_read = [&](int64_t) { gate.wait(); };
  const auto loader = make_loader(source, {}, options_of(10));
  EXPECT_FALSE(loader->ready());
  gate.wait_for_arrival();
  std::thread canceller([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    loader->cancel();
  });
  const auto begin = Clock::now();
  EXPECT_FALSE(loader->next_step().has_value());
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(1));
  canceller.join();
  EXPECT_FALSE(loader->next_step().has_value());  // still, at once
  gate.open();
  while (!loader->ready()) std::this_thread::yield();
  EXPECT_EQ(loader->next_step().value()[0].ids.size(), 10u);  // what is ready is delivered, from the unchanged place
  loader->seek(0, 0);
  EXPECT_TRUE(loader->next_step().has_value());  // no longer cancelled
}

TEST(Loader, CancelWithoutWorkersStopsBeforeTheNextStep) {
  const CountingSource source(100);
  const auto loader = make_loader(source, {}, options_of(10, 0, 1, 0));
  EXPECT_TRUE(loader->next_step().has_value());
  loader->cancel();
  EXPECT_FALSE(loader->next_step().has_value());
  loader->seek(0, 1);
  EXPECT_TRUE(loader->next_step().has_value());
}

TEST(Loader, DestructionWhileDecodingJoins) {
  const CountingSource source(10000);
  for (int i = 0; i < 50; ++i) {
    const auto loader = make_loader(source, {}, options_of(1000, 0, 1, 3));
    loader->seek(0, i % 10);
  }
}

TEST(Loader, ThreadsStartWithTheFirstUse) {
  const CountingSource source(1000);
  {
    const auto loader = make_loader(source, {}, options_of(10));
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    EXPECT_EQ(source.reads, 0);
    loader->seek(5, 5);
    const auto deadline = Clock::now() + std::chrono::seconds(10);
    while (source.reads < 40 && Clock::now() < deadline) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    EXPECT_EQ(source.reads, 40);  // prefetch 4 and no more
  }
}

TEST(Loader, StepOfManyMicroBatchesNeedsNoLargePrefetch) {
  const CountingSource source(1000);
  LoaderOptions options = options_of(100, 0, 1, 2);
  options.micro_batch = 3;  // 34 a step
  options.prefetch = 1;
  const auto loader = make_loader(source, {}, options);
  const auto deadline = Clock::now() + std::chrono::seconds(10);
  for (int s = 0; s < 25; ++s) {
    while (!loader->ready() && Clock::now() < deadline) std::this_thread::yield();
    ASSERT_TRUE(loader->ready());
    EXPECT_EQ(next_ids(*loader).size(), 100u);
  }
}

// ready() alone makes the decode threads fill a step that the half-empty rule had left short: a step of one micro-batch
// (the tail), then one of four.
TEST(Loader, ReadyComesTrueByPollingAlone) {
  const CountingSource source(41);
  LoaderOptions options = options_of(40, 0, 1, 1);
  options.micro_batch = 10;
  const auto loader = make_loader(source, {}, options);
  const auto deadline = Clock::now() + std::chrono::seconds(10);
  for (int s = 0; s < 40; ++s) {
    while (!loader->ready() && Clock::now() < deadline) std::this_thread::yield();
    ASSERT_TRUE(loader->ready()) << s;
    EXPECT_EQ(next_ids(*loader).size(), s % 2 == 0 ? 40u : 1u);
  }
}

TEST(Loader, HeldBatchesKeepTheirContent) {
  const CountingSource source(1000);
  for (int workers : {0, 2}) {
    const auto loader = make_loader(source, {}, options_of(10, 0, 1, workers));
    std::vector<Batch> held;
    for (int s = 0; s < 60; ++s) {
      auto step = loader->next_step();
      held.push_back(step.value()[0]);
    }
    for (const Batch& batch : held) expect_rows_are_ids(batch);
  }
}

TEST(Loader, MemoryIsReused) {
  const CountingSource source(1000);
  for (int workers : {0, 1}) {
    LoaderOptions options = options_of(10, 0, 1, workers);
    int made = 0;
    const auto consumer = std::this_thread::get_id();
    options.pin_memory = true;
    options.allocate = [&](at::IntArrayRef sizes, at::ScalarType type) {
      EXPECT_EQ(std::this_thread::get_id(), consumer);
      ++made;
      return at::empty(sizes, type);
    };
    const auto loader = make_loader(source, {}, options);
    for (int s = 0; s < 300; ++s) next_ids(*loader);
    EXPECT_EQ(made, workers == 0 ? 2 : 2 * (4 + 1));
    options.pin_memory = false;
    make_loader(source, {}, options)->next_step();
    EXPECT_EQ(made, workers == 0 ? 2 : 10);  // not asked for: not used
  }
}

TEST(Loader, BatchesTakePartInAutograd) {
  const CountingSource source(100);
  const auto loader = make_loader(source, {}, options_of(10));
  const auto step = loader->next_step();
  const at::Tensor weight = at::ones({2, 1}).requires_grad_();
  step.value()[0].inputs.mm(weight).sum().backward();
  EXPECT_TRUE(weight.grad().equal(step.value()[0].inputs.sum(0).view({2, 1})));
  EXPECT_FALSE(step.value()[0].inputs.is_inference());
}

TEST(Loader, DoublePrecisionMakesDoubleRows) {
  const CountingSource source(100);
  LoaderOptions options = options_of(10);
  options.float_type = at::kDouble;
  const auto step = make_loader(source, {}, options)->next_step();
  EXPECT_EQ(step.value()[0].inputs.scalar_type(), at::kDouble);
  EXPECT_EQ(step.value()[0].inputs[4][1].item<double>(), 2.0 * static_cast<double>(step.value()[0].ids[4]));
}

}  // namespace
}  // namespace gputrain

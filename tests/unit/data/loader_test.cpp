// How a loader behaves: errors, cancellation, threads, memory.
#include "data/loader.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include <ATen/ATen.h>

#include "unit/data/counting_source.h"

namespace gputrain {
namespace {

using testing::HasSubstr;
using namespace test;
using Clock = std::chrono::steady_clock;

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

TEST(Loader, WithoutWorkersNothingWaitsAndNothingIsCancelled) {
  const CountingSource source(100);
  const auto loader = make_loader(source, {}, options_of(10, 0, 1, 0));
  EXPECT_TRUE(loader->next_step().has_value());
  loader->cancel();
  EXPECT_TRUE(loader->ready());
  EXPECT_TRUE(loader->next_step().has_value());
}

// On every rank and step, the tail and ranks without a sample among them.
TEST(Loader, NextSamplesIsWhatTheNextStepBrings) {
  const CountingSource source(41);
  for (int workers : {0, 2}) {
    for (int rank = 0; rank < 3; ++rank) {
      LoaderOptions options = options_of(10, rank, 3, workers);
      options.micro_batch = 2;
      const auto loader = make_loader(source, {}, options);
      for (int s = 0; s < 12; ++s) {
        const int64_t samples = loader->next_samples();
        EXPECT_EQ(std::ssize(next_ids(*loader)), samples) << "rank " << rank << ", step " << s;
      }
    }
  }
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

// Which samples a loader delivers, in which order.
#include <numeric>

#include <ATen/ATen.h>

#include "unit/data/counting_source.h"

namespace gputrain {
namespace {

using namespace test;

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

TEST(LoaderStream, EachEpochHasEverySampleOnce) {
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

TEST(LoaderStream, MicroBatchesCutTheShareInOrder) {
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

TEST(LoaderStream, RanksWithoutSamplesGetNothingAndDoNotBlock) {
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

TEST(LoaderStream, SeekContinuesAsIfUninterrupted) {
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

TEST(LoaderStream, SeekInMidStreamDropsWhatWasPrefetched) {
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

TEST(LoaderStream, SeekCostsTheSameWherever) {
  const CountingSource source(1000000);
  LoaderOptions options = options_of(10, 0, 1, 0);
  const auto loader = make_loader(source, {}, options);
  loader->seek(1000000, 99999);
  EXPECT_EQ(next_ids(*loader).size(), 10u);
  EXPECT_EQ(source.reads, 10);
}

// The same sample becomes the same row whichever rank and thread decodes it.
TEST(LoaderStream, AugmentationDependsOnTheSampleAlone) {
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

TEST(LoaderStream, EvaluationReadsEverySampleOnceInOrder) {
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

TEST(LoaderStream, EvaluationBatchDefaultsToTheRanksShare) {
  const CountingSource source(100);
  EXPECT_EQ(make_eval_loader(source, {}, options_of(20, 0, 2))->steps_per_epoch(), 5);
  EXPECT_EQ(make_eval_loader(source, {}, options_of(1, 0, 2))->steps_per_epoch(), 50);  // G < W: at least one
}

TEST(LoaderStream, EvaluationDoesNotAugment) {
  Folder folder;
  const auto source =
      open_source(idx_plan(folder.write("i", idx_images(20)), folder.write("l", idx_labels(20))), "data.val");
  const auto loader =
      make_eval_loader(*source, {{"random_horizontal_flip", {{"p", 1}}}, {"to_tensor"}}, options_of(20));
  const auto step = loader->next_step();
  EXPECT_EQ(step.value()[0].inputs[3][0][0][0].item<float>(), static_cast<float>(pixel_of(3, 0)) / 255.f);
}

}  // namespace
}  // namespace gputrain

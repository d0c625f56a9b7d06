// format: tokens, alone and through the loader.
#include <numeric>

#include <ATen/ATen.h>

#include "unit/data/data_files.h"

namespace gputrain {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using namespace test;

using Tokens = std::vector<int64_t>;

class TokenSource : public testing::Test {
 protected:
  static DataSourcePlan plan_of(const std::string& path, const std::string& dtype, int64_t context,
                                int64_t offset = 0) {
    return {"tokens", Json{{"path", path}, {"dtype", dtype}, {"context", context}, {"offset", offset}}};
  }
  static std::unique_ptr<Source> open(const DataSourcePlan& plan, std::optional<int64_t> classes = {}) {
    return open_source(plan, "data.train", {.task = Task::kLanguageModel, .classes = classes, .ignore_index = {}});
  }
  static Error data_error(const DataSourcePlan& plan, std::optional<int64_t> classes = {}) {
    Error error = error_of([&] { open(plan, classes); });
    EXPECT_EQ(error.kind, ErrorKind::kData);
    EXPECT_EQ(error.where, plan.args["path"].get<std::string>());
    return error;
  }
  static std::pair<Tokens, Tokens> read(const Source& source, int64_t id) {
    Tokens inputs(static_cast<size_t>(source.sample_shape().at(0))), targets(inputs.size());
    source.read(id, inputs.data(), targets.data());
    return {inputs, targets};
  }
  static Tokens counting(int64_t first, int64_t count) {
    Tokens tokens(static_cast<size_t>(count));
    std::iota(tokens.begin(), tokens.end(), first);
    return tokens;
  }
  // Tokens 0, 1, 2, ...: each says where it stands.
  std::string counting_file(int64_t count) const {
    std::vector<uint16_t> tokens(static_cast<size_t>(count));
    std::iota(tokens.begin(), tokens.end(), uint16_t{0});
    return folder_.write_values("train.bin", tokens);
  }

  Folder folder_;
};

TEST_F(TokenSource, WindowsFollowEachOtherAndTargetsAreOneAhead) {
  const auto source = open(plan_of(counting_file(23), "uint16", 5));
  EXPECT_EQ(source->size(), 4);
  EXPECT_EQ(source->sample_shape(), (std::vector<int64_t>{5}));
  EXPECT_EQ(source->target_shape(), (std::vector<int64_t>{5}));
  EXPECT_EQ(source->sample_type(), at::kLong);
  EXPECT_EQ(source->target_type(), at::kLong);
  EXPECT_FALSE(source->mask_padding());
  for (int64_t id : {3, 0, 2, 1}) {
    const auto [inputs, targets] = read(*source, id);
    EXPECT_EQ(inputs, counting(5 * id, 5));
    EXPECT_EQ(targets, counting(5 * id + 1, 5));
  }
}

// floor((count - 1) / context): the last target must be there.
TEST_F(TokenSource, TheLastWindowNeedsItsTarget) {
  for (const auto& [count, windows] : std::vector<std::pair<int64_t, int64_t>>{{6, 1}, {10, 1}, {11, 2}, {12, 2}})
    EXPECT_EQ(open(plan_of(counting_file(count), "uint16", 5))->size(), windows) << count;
  EXPECT_EQ(open(plan_of(counting_file(4), "uint16", 1))->size(), 3);
}

template <typename T>
std::string type_file(const Folder& folder, T large) {
  return folder.write_values("t", std::vector<T>{large, 1, 2, T(large - 1), 4}, "header");
}

TEST_F(TokenSource, TypesAndOffset) {
  const auto expect_large = [&](const std::string& path, const std::string& dtype, int64_t large) {
    const auto source = open(plan_of(path, dtype, 4, 6));
    ASSERT_EQ(source->size(), 1) << dtype;
    const auto [inputs, targets] = read(*source, 0);
    EXPECT_EQ(inputs, (Tokens{large, 1, 2, large - 1})) << dtype;
    EXPECT_EQ(targets, (Tokens{1, 2, large - 1, 4})) << dtype;
    EXPECT_EQ(read(*open(plan_of(path, dtype, 1, 6)), 3), (std::pair{Tokens{large - 1}, Tokens{4}})) << dtype;
  };
  expect_large(type_file<uint8_t>(folder_, 255), "uint8", 255);
  expect_large(type_file<uint16_t>(folder_, 65535), "uint16", 65535);
  expect_large(type_file<uint32_t>(folder_, 4294967295), "uint32", 4294967295);
}

TEST_F(TokenSource, OffsetMayBeLeftOut) {
  DataSourcePlan plan = plan_of(counting_file(9), "uint16", 4);
  plan.args.erase("offset");
  EXPECT_EQ(open(plan)->size(), 2);
}

TEST_F(TokenSource, SizeMustBeWholeTokensAndHoldAWindow) {
  const std::string odd = folder_.write("odd", std::string(25, 'x'));
  EXPECT_THAT(data_error(plan_of(odd, "uint16", 4)).message,
              AllOf(HasSubstr("data.train does not hold a whole number of tokens"),
                    HasSubstr("25 bytes - offset 0 = 25, at 2 bytes a token (uint16)")));
  EXPECT_THAT(data_error(plan_of(odd, "uint32", 4, 3)).message, HasSubstr("25 bytes - offset 3 = 22, at 4 bytes"));
  EXPECT_THAT(data_error(plan_of(counting_file(5), "uint16", 5)).message,
              HasSubstr("is too short: 10 bytes - offset 0 are 5 tokens of uint16, and a window of context 5 takes 6"));
  EXPECT_THAT(data_error(plan_of(odd, "uint8", 4, 100)).message, HasSubstr("25 bytes - offset 100 are 0 tokens"));
  EXPECT_THAT(data_error(plan_of(folder_.write("none", ""), "uint8", 4)).message, HasSubstr("is empty"));
  EXPECT_THAT(data_error(plan_of(folder_.path("missing"), "uint8", 4)).message, HasSubstr("cannot be opened"));
}

TEST_F(TokenSource, ANumpyHeaderIsNotTokens) {
  const std::string npy = folder_.write("a.npy", std::string("\x93NUMPY\1\0", 8) + std::string(120, ' ') + "tokens");
  EXPECT_THAT(data_error(plan_of(npy, "uint8", 4)).render(),
              AllOf(HasSubstr("is a NumPy .npy file"), HasSubstr("tofile"), HasSubstr("most often 128")));
  EXPECT_EQ(open(plan_of(npy, "uint8", 4, 128))->size(), 1);
}

TEST_F(TokenSource, TokensMustBeInTheVocabulary) {
  const std::string path = folder_.write_values("t", std::vector<uint16_t>{0, 1, 2, 50257, 3, 4, 60000, 5});
  EXPECT_NO_THROW(open(plan_of(path, "uint16", 2)));  // not known
  const Error error = data_error(plan_of(path, "uint16", 2), 50257);
  EXPECT_EQ(error.message, "data.train has token 50257 at position 3, which is not in [0, 50257)");
  EXPECT_THAT(error.hint, AllOf(HasSubstr("vocab_size"), HasSubstr("dtype")));
  EXPECT_THAT(data_error(plan_of(path, "uint16", 2), 50258).message, HasSubstr("has token 60000 at position 6"));
  EXPECT_NO_THROW(open(plan_of(path, "uint16", 2), 60001));
  EXPECT_NO_THROW(open(plan_of(path, "uint16", 5), 50258));  // the window ends before it
  const std::string text = folder_.write("text", "To be, or not to be.");
  EXPECT_NO_THROW(open(plan_of(text, "uint8", 4), 128));  // a vocabulary of fewer than 256
  EXPECT_THAT(data_error(plan_of(text, "uint16", 4), 128).message, HasSubstr("has token 28500 at position 0"));
}

// What is checked up front goes by blocks: the position is the file's, whichever block it is in.
TEST_F(TokenSource, PositionsAreTheFiles) {
  std::vector<uint8_t> tokens(200001, 1);
  tokens[200000] = 9;
  EXPECT_THAT(data_error(plan_of(folder_.write_values("t", tokens), "uint8", 8), 9).message,
              HasSubstr("has token 9 at position 200000"));
}

// 64 MiB and a bit, sparse.
TEST_F(TokenSource, LargeFilesAreCheckedWhenRead) {
  const std::string path = folder_.write("t", "");
  std::filesystem::resize_file(path, (64 << 20) + 2);
  std::ofstream(path, std::ios::binary | std::ios::app) << std::string("\x63\0", 2);
  const int64_t count = (32 << 20) + 2;
  const auto source = open(plan_of(path, "uint16", 3), 99);
  ASSERT_EQ(source->size(), (count - 1) / 3);
  EXPECT_EQ(read(*source, 7), (std::pair{Tokens{0, 0, 0}, Tokens{0, 0, 0}}));
  const Error error = error_of([&] { read(*source, source->size() - 1); });  // as its last target
  EXPECT_EQ(error.kind, ErrorKind::kData);
  EXPECT_EQ(error.message, "data.train has token 99 at position 33554433, which is not in [0, 99)");
}

// Above 1 GiB reads go through pread.
TEST_F(TokenSource, HugeFilesAreReadWithoutAMap) {
  const std::string path = folder_.write("t", "");
  std::filesystem::resize_file(path, (int64_t{1} << 30) + 6);
  std::ofstream(path, std::ios::binary | std::ios::app) << std::string("\1\0\2\0\3\0", 6);
  const auto source = open(plan_of(path, "uint16", 2, 2));
  EXPECT_EQ(read(*source, source->size() - 1), (std::pair{Tokens{1, 2}, Tokens{2, 3}}));
}

TEST_F(TokenSource, ArgumentsAreChecked) {
  const std::string path = counting_file(9);
  const auto spec_error = [](const DataSourcePlan& plan) {
    const Error error = error_of([&] { open(plan); });
    EXPECT_EQ(error.kind, ErrorKind::kSpec);
    return error.render();
  };
  EXPECT_THAT(spec_error(plan_of(path, "int16", 4)),
              AllOf(HasSubstr("data.train.dtype 'int16'"), HasSubstr("uint8, uint16 and uint32")));
  EXPECT_THAT(spec_error(plan_of(path, "uint16", 0)), HasSubstr("context is at least 1"));
  EXPECT_THAT(spec_error(plan_of(path, "uint16", 4, -1)), HasSubstr("offset at least 0"));
  EXPECT_THAT(spec_error({"tokens", Json{{"path", path}, {"dtype", "uint16"}}}), HasSubstr("argument 'context'"));
  EXPECT_THAT(error_of([&] { open_source(plan_of(path, "uint16", 4), "data.train"); }).message,
              HasSubstr("data.train: tokens is for the task language_model, not for classification"));
}

TEST_F(TokenSource, FingerprintFollowsContentAndContext) {
  const auto fingerprint_of = [&](const std::vector<uint16_t>& tokens, int64_t context, const std::string& before) {
    const std::string path = folder_.write_values("t", tokens, before);
    return open(plan_of(path, "uint16", context, std::ssize(before)))->fingerprint();
  };
  const Json base = fingerprint_of({1, 2, 3, 4, 5}, 2, "");
  EXPECT_EQ(base["format"], "tokens");
  EXPECT_EQ(base["samples"], 2);
  EXPECT_EQ(base["context"], 2);
  EXPECT_EQ(base["dtype"], "uint16");
  EXPECT_EQ(base["bytes"], 10);
  EXPECT_EQ(base, fingerprint_of({1, 2, 3, 4, 5}, 2, "head"));
  EXPECT_NE(base, fingerprint_of({1, 2, 3, 4, 6}, 2, ""));
  EXPECT_NE(base, fingerprint_of({1, 2, 3, 4, 5}, 4, ""));
}

TEST_F(TokenSource, AFileThatShrinksIsAnErrorNotASignal) {
  const std::string path = counting_file(20000);
  const auto source = open(plan_of(path, "uint16", 5000));
  LoaderOptions options;
  options.workers = 0;
  const auto loader = make_loader(*source, {}, options);
  EXPECT_TRUE(loader->next_step());
  std::filesystem::resize_file(path, 16);
  const Error error = error_of([&] { loader->next_step(); });
  EXPECT_EQ(error.kind, ErrorKind::kData);
  EXPECT_THAT(error.message, HasSubstr("ends at byte 16"));
}

TEST_F(TokenSource, TransformsAreRefused) {
  const auto source = open(plan_of(counting_file(101), "uint16", 4));
  for (const Named& transform : std::vector<Named>{{"to_tensor", {}},
                                                   {"random_horizontal_flip", {}},
                                                   {"normalize", {{"mean", {0.5}}, {"std", {0.5}}}},
                                                   {"random_crop", {{"size", 2}}}}) {
    const Error error = error_of([&] { make_loader(*source, {transform}, {}); });
    EXPECT_EQ(error.kind, ErrorKind::kSpec);
    EXPECT_THAT(error.message, AllOf(HasSubstr(transform.name), HasSubstr("int64 [4]")));
  }
}

// Through the loader.

// First token of each window and its rows, checked against the file: token t stands at position t.
std::vector<int64_t> first_tokens(const std::vector<Batch>& batches) {
  std::vector<int64_t> firsts;
  for (const Batch& batch : batches) {
    const int64_t rows = std::ssize(batch.ids), context = batch.inputs.size(1);
    EXPECT_EQ(batch.inputs.scalar_type(), at::kLong);
    EXPECT_TRUE(batch.targets.equal(batch.inputs + 1));
    const at::Tensor ids = at::tensor(batch.ids).view({rows, 1});
    EXPECT_TRUE(batch.inputs.equal(ids * context + at::arange(context).view({1, context})));
    for (const int64_t id : batch.ids) firsts.push_back(id * context);
  }
  return firsts;
}

LoaderOptions loader_options(int rank, int world, int workers) {
  LoaderOptions options;
  options.global_batch = 12;
  options.micro_batch = 3;
  options.shard = {rank, world};
  options.workers = workers;
  return options;
}

// The windows of a step, rank after rank.
std::vector<int64_t> step_of_all(std::vector<std::unique_ptr<Loader>>& ranks) {
  std::vector<int64_t> joined;
  for (auto& loader : ranks) {
    const auto firsts = first_tokens(loader->next_step().value());
    joined.insert(joined.end(), firsts.begin(), firsts.end());
  }
  return joined;
}

std::vector<std::unique_ptr<Loader>> loaders_of(const Source& source, int world, int workers) {
  std::vector<std::unique_ptr<Loader>> loaders;
  for (int rank = 0; rank < world; ++rank)
    loaders.push_back(make_loader(source, {}, loader_options(rank, world, workers)));
  return loaders;
}

TEST_F(TokenSource, EveryWindowOnceAnEpochOverAnyRanksAndWorkers) {
  const auto source = open(plan_of(counting_file(1003), "uint16", 8));
  ASSERT_EQ(source->size(), 125);
  std::vector<std::vector<int64_t>> base;
  for (int world : {1, 2, 3}) {
    for (int workers : {0, 1, 3}) {
      auto loaders = loaders_of(*source, world, workers);
      std::vector<std::vector<int64_t>> steps;
      for (int64_t s = 0; s < 2 * loaders[0]->steps_per_epoch(); ++s) steps.push_back(step_of_all(loaders));
      if (base.empty()) base = steps;
      ASSERT_EQ(steps, base) << world << " ranks, " << workers << " workers";
    }
  }
  ASSERT_EQ(base.size(), 22u);
  for (size_t epoch : {0, 1}) {
    std::vector<int64_t> firsts, all;
    for (size_t s = 0; s < 11; ++s)
      firsts.insert(firsts.end(), base[11 * epoch + s].begin(), base[11 * epoch + s].end());
    std::sort(firsts.begin(), firsts.end());
    for (int64_t id = 0; id < 125; ++id) all.push_back(8 * id);
    EXPECT_EQ(firsts, all);
  }
  EXPECT_NE(base[0], base[11]);
}

TEST_F(TokenSource, Trap28ResumeWithOtherRanksLosesNoWindow) {
  const auto source = open(plan_of(counting_file(1003), "uint16", 8));
  auto whole = loaders_of(*source, 1, 1);
  std::vector<std::vector<int64_t>> expected, seen;
  for (int64_t s = 0; s < 22; ++s) expected.push_back(step_of_all(whole));
  // Stopped after 4, 9 and 15 steps, each time going on with another number of ranks.
  int64_t done = 0;
  for (const auto& [stop, world] : std::vector<std::pair<int64_t, int>>{{4, 2}, {9, 3}, {15, 1}, {22, 2}}) {
    auto loaders = loaders_of(*source, world, world);
    for (auto& loader : loaders) loader->seek(done / 11, done % 11);
    for (; done < stop; ++done) seen.push_back(step_of_all(loaders));
  }
  EXPECT_EQ(seen, expected);
}

TEST_F(TokenSource, Trap23EvaluationReadsEveryWindowOnce) {
  const auto source = open(plan_of(counting_file(1003), "uint16", 8));
  for (int world : {1, 2, 3}) {
    std::vector<int64_t> firsts;
    for (int rank = 0; rank < world; ++rank) {
      const auto loader = make_eval_loader(*source, {}, loader_options(rank, world, 1));
      for (int64_t s = 0; s < loader->steps_per_epoch(); ++s) {
        const auto more = first_tokens(loader->next_step().value());
        firsts.insert(firsts.end(), more.begin(), more.end());
      }
    }
    std::vector<int64_t> all;
    for (int64_t id = 0; id < 125; ++id) all.push_back(8 * id);
    EXPECT_EQ(firsts, all) << world;
  }
}

}  // namespace
}  // namespace gputrain

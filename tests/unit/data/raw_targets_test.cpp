// What format: raw takes as targets of each task, and what a batch makes of them.
#include <ATen/ATen.h>

#include "unit/data/data_files.h"

namespace gputrain {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using namespace test;

SourceOptions options_of(Task task, std::optional<int64_t> classes = {}, std::optional<int64_t> ignore_index = {}) {
  return {.task = task, .classes = classes, .ignore_index = ignore_index};
}

class RawTargets : public testing::Test {
 protected:
  // An array of zeros for the inputs of two samples.
  Json inputs(const std::vector<int64_t>& shape, const std::string& dtype = "float32") const {
    int64_t elements = 2;
    for (const int64_t dim : shape) elements *= dim;
    return array(folder_.write_values("x", std::vector<float>(static_cast<size_t>(elements))), shape, dtype);
  }
  template <typename T>
  Json targets(const std::vector<T>& values, const std::vector<int64_t>& shape, const std::string& dtype) const {
    return array(folder_.write_values("y", values), shape, dtype);
  }
  static std::unique_ptr<Source> open(const Json& inputs, const Json& targets, const SourceOptions& options) {
    return open_source(raw_plan(inputs, targets), "data.train", options);
  }
  static Error error_with(const Json& inputs, const Json& targets, const SourceOptions& options) {
    return error_of([&] { open(inputs, targets, options); });
  }
  static std::string spec_error(const Json& inputs, const Json& targets, Task task) {
    const Error error = error_with(inputs, targets, options_of(task));
    EXPECT_EQ(error.kind, ErrorKind::kSpec);
    return error.message;
  }
  static Batch first_batch(const Source& source, const std::vector<Named>& transforms = {},
                           at::ScalarType type = at::kFloat) {
    LoaderOptions options;
    options.global_batch = source.size();
    options.workers = 0;
    options.float_type = type;
    return make_eval_loader(source, transforms, options)->next_step().value().at(0);
  }
  Folder folder_;
};

TEST_F(RawTargets, MasksBecomeInt64) {
  const auto source = open(inputs({3, 1, 2}), targets(std::vector<uint8_t>{0, 1, 2, 255}, {1, 2}, "uint8"),
                           options_of(Task::kSegmentation, 3, 255));
  EXPECT_EQ(source->target_type(), at::kLong);
  EXPECT_EQ(source->target_shape(), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(source->mask_padding(), 255);
  EXPECT_TRUE(first_batch(*source).targets.equal(at::tensor({0, 1, 2, 255}, at::kLong).view({2, 1, 2})));
}

TEST_F(RawTargets, MasksOfVolumes) {
  const auto source =
      open(inputs({1, 2, 1, 2}), targets(std::vector<int16_t>{0, 1, 2, -1, 0, 1, 2, 3}, {2, 1, 2}, "int16"),
           options_of(Task::kSegmentation, 4, -1));
  EXPECT_TRUE(first_batch(*source).targets.equal(at::tensor({0, 1, 2, -1, 0, 1, 2, 3}, at::kLong).view({2, 2, 1, 2})));
}

TEST_F(RawTargets, MaskValuesMustBeClasses) {
  const Json masks = targets(std::vector<uint8_t>{0, 1, 2, 0, 1, 0, 0, 7}, {2, 2}, "uint8");
  const Error error = error_with(inputs({3, 2, 2}), masks, options_of(Task::kSegmentation, 3));
  EXPECT_EQ(error.kind, ErrorKind::kData);
  EXPECT_EQ(error.where, folder_.path("y"));
  EXPECT_EQ(error.message, "data.train.targets has class 7 at sample 1 [1, 1], which is not in [0, 3)");
  EXPECT_THAT(error_with(inputs({3, 2, 2}), masks, options_of(Task::kSegmentation, 3, 255)).message,
              HasSubstr("has class 7 at sample 1 [1, 1], which is not in [0, 3) nor the ignore_index 255"));
  EXPECT_THAT(error_with(inputs({3, 2, 2}), masks, options_of(Task::kSegmentation, 1, 7)).message,
              HasSubstr("has class 1 at sample 0 [0, 1]"));
  EXPECT_NO_THROW(open(inputs({3, 2, 2}), masks, options_of(Task::kSegmentation, 3, 7)));
  EXPECT_NO_THROW(open(inputs({3, 2, 2}), masks, options_of(Task::kSegmentation)));  // classes not known
}

// Sparse: 65 masks of 1 MiB.
TEST_F(RawTargets, MasksOfLargeFilesAreCheckedWhenRead) {
  const int64_t count = 65, pixels = 1 << 20;
  const std::string x = folder_.write("x", ""), y = folder_.write("y", "");
  std::filesystem::resize_file(x, static_cast<uintmax_t>(count * pixels));
  std::filesystem::resize_file(y, static_cast<uintmax_t>(count * pixels) - 1);
  std::ofstream(y, std::ios::binary | std::ios::app) << '\5';
  const auto source =
      open(array(x, {1, 1024, 1024}, "uint8"), array(y, {1024, 1024}, "uint8"), options_of(Task::kSegmentation, 5));
  std::vector<char> sample(static_cast<size_t>(pixels));
  std::vector<int64_t> mask(static_cast<size_t>(pixels), -1);
  source->read(count - 2, sample.data(), mask.data());
  EXPECT_EQ(mask, std::vector<int64_t>(mask.size(), 0));
  const Error error = error_of([&] { source->read(count - 1, sample.data(), mask.data()); });
  EXPECT_EQ(error.kind, ErrorKind::kData);
  EXPECT_THAT(error.message, HasSubstr("has class 5 at sample 64 [1023, 1023]"));
}

TEST_F(RawTargets, MasksMustFitTheirImages) {
  const Json good = targets(std::vector<uint8_t>(8), {2, 2}, "uint8");
  EXPECT_THAT(spec_error(inputs({4}), good, Task::kSegmentation),
              HasSubstr("data.train.inputs is float32 [4]: segmentation takes images [channels, height, width]"));
  EXPECT_THAT(spec_error(inputs({3, 4, 1}), good, Task::kSegmentation),
              HasSubstr("data.train.targets is uint8 [2, 2]: the mask of an image of [3, 4, 1] is integers of [4, 1]"));
  EXPECT_THAT(spec_error(inputs({3, 2, 2}), targets(std::vector<float>(8), {2, 2}, "float32"), Task::kSegmentation),
              HasSubstr("data.train.targets is float32 [2, 2]"));
  EXPECT_THAT(spec_error(inputs({1, 2, 2, 2}), good, Task::kSegmentation), HasSubstr("integers of [2, 2, 2]"));
}

// The image's pixels are its mask's classes, so that whatever moves one must move the other.
class MovedMasks : public RawTargets {
 protected:
  static constexpr int64_t kCount = 40, kHeight = 5, kWidth = 7;

  std::unique_ptr<Source> open_moved(std::optional<int64_t> ignore_index) const {
    std::vector<uint8_t> pixels(kCount * kHeight * kWidth);
    for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<uint8_t>(1 + i * 31 % 200);
    const std::string path = folder_.write_values("x", pixels);
    return open(array(path, {1, kHeight, kWidth}, "uint8"), array(path, {kHeight, kWidth}, "uint8"),
                options_of(Task::kSegmentation, 201, ignore_index));
  }
  static std::vector<Batch> epoch_of(const Source& source, const std::vector<Named>& transforms, int workers,
                                     int64_t epoch) {
    LoaderOptions options;
    options.global_batch = kCount;
    options.micro_batch = 7;
    options.workers = workers;
    const auto loader = make_loader(source, transforms, options);
    loader->seek(epoch, 0);
    std::vector<Batch> batches = loader->next_step().value();
    for (Batch& batch : batches) batch.inputs = batch.inputs.clone(), batch.targets = batch.targets.clone();
    return batches;
  }
};

const std::vector<Named> kMoves{
    {"random_horizontal_flip", {{"p", 0.5}}}, {"random_crop", {{"size", 6}, {"padding", 2}}}, {"to_tensor", {}}};

TEST_F(MovedMasks, FlipsAndCropsMoveBoth) {
  for (const std::optional<int64_t> ignore_index : {std::optional<int64_t>(), std::optional<int64_t>(255)}) {
    const auto source = open_moved(ignore_index);
    bool flipped = false, padded = false;
    for (int64_t epoch = 0; epoch < 3; ++epoch) {
      for (const Batch& batch : epoch_of(*source, kMoves, 2, epoch)) {
        const at::Tensor pixels = (batch.inputs.squeeze(1) * 255).round().to(at::kLong);  // 0 is padding: no pixel is 0
        ASSERT_EQ(batch.targets.sizes(), (std::vector<int64_t>{std::ssize(batch.ids), 6, 6}));
        ASSERT_EQ(batch.targets.scalar_type(), at::kLong);
        ASSERT_TRUE(batch.targets.equal(pixels.masked_fill(pixels == 0, ignore_index.value_or(0))));
        padded |= (pixels == 0).any().item<bool>();
        flipped |= (pixels[0][3][2] - pixels[0][3][3]).remainder(200).item<int64_t>() == 31;
      }
    }
    EXPECT_TRUE(padded && flipped);
  }
}

TEST_F(MovedMasks, DependOnTheSampleAlone) {
  const auto source = open_moved(255);
  const auto rows_of = [&](int workers) {
    std::vector<at::Tensor> rows(kCount);
    for (const Batch& batch : epoch_of(*source, kMoves, workers, 1)) {
      for (size_t i = 0; i < batch.ids.size(); ++i)
        rows[static_cast<size_t>(batch.ids[i])] = batch.targets[static_cast<int64_t>(i)];
    }
    return at::stack(rows);
  };
  EXPECT_TRUE(rows_of(0).equal(rows_of(3)));
}

TEST_F(MovedMasks, EvaluationCropsTheCentreOfBoth) {
  const auto source = open_moved({});
  const std::vector<Named> crop{{"random_crop", {{"size", 3}}}, {"to_tensor", {}}};
  const Batch batch = first_batch(*source, crop);
  EXPECT_TRUE(batch.targets.equal((batch.inputs.squeeze(1) * 255).round().to(at::kLong)));
  EXPECT_EQ(batch.targets[0][0][0].item<int64_t>(), 1 + (1 * kWidth + 2) * 31 % 200);
}

TEST_F(MovedMasks, StayWhereNothingMoves) {
  const auto source = open_moved({});
  const Batch batch = first_batch(*source, {{"to_tensor", {}}});
  EXPECT_TRUE(batch.targets.equal((batch.inputs.squeeze(1) * 255).round().to(at::kLong)));
}

// Regression.

TEST_F(RawTargets, NumbersTakeTheLoadersFloatType) {
  const auto expect_values = [&](const Json& y, at::ScalarType stored) {
    const auto source = open(inputs({1}), y, options_of(Task::kRegression, 1));
    EXPECT_EQ(source->target_type(), stored);
    for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
      const Batch batch = first_batch(*source, {}, type);
      EXPECT_EQ(batch.inputs.scalar_type(), type);
      EXPECT_TRUE(batch.targets.equal(at::tensor({1, -2, 3, 4}, type).view({2, 2}))) << batch.targets;
    }
  };
  expect_values(targets(std::vector<float>{1, -2, 3, 4}, {2}, "float32"), at::kFloat);
  expect_values(targets(std::vector<double>{1, -2, 3, 4}, {2}, "float64"), at::kDouble);
  expect_values(targets(std::vector<at::Half>{1, -2, 3, 4}, {2}, "float16"), at::kHalf);
  expect_values(targets(std::vector<at::BFloat16>{1, -2, 3, 4}, {2}, "bfloat16"), at::kBFloat16);
  expect_values(targets(std::vector<int16_t>{1, -2, 3, 4}, {2}, "int16"), at::kDouble);
  expect_values(targets(std::vector<int64_t>{1, -2, 3, 4}, {2}, "int64"), at::kDouble);
}

TEST_F(RawTargets, NumbersOfAnyShape) {
  const auto scalar =
      open(inputs({3}), targets(std::vector<double>{0.1, -1e300}, {}, "float64"), options_of(Task::kRegression));
  EXPECT_TRUE(first_batch(*scalar, {}, at::kDouble).targets.equal(at::tensor({0.1, -1e300}, at::kDouble)));
  EXPECT_EQ(first_batch(*scalar).targets[0].item<float>(), 0.1f);
  const auto image = open(inputs({3}), targets(std::vector<uint8_t>{1, 2, 3, 4, 5, 6, 7, 8}, {1, 2, 2}, "uint8"),
                          options_of(Task::kRegression));
  EXPECT_TRUE(first_batch(*image).targets.equal(at::arange(1, 9, at::kFloat).view({2, 1, 2, 2})));
}

// A label is a class, and no number: it is not checked against the classes in a regression.
TEST_F(RawTargets, NumbersAreNotClasses) {
  const auto source =
      open(inputs({1}), targets(std::vector<int32_t>{-7, 100}, {}, "int32"), options_of(Task::kRegression, 1));
  EXPECT_TRUE(first_batch(*source).targets.equal(at::tensor({-7, 100}, at::kFloat)));
}

// Language model.

TEST_F(RawTargets, TokensAreWidenedOnBothSides) {
  const std::string x = folder_.write_values("x", std::vector<uint8_t>{0, 200, 2, 3, 4, 5});
  const auto source = open(array(x, {3}, "uint8"), targets(std::vector<int32_t>{1, 2, -100, 4, 5, -100}, {3}, "int32"),
                           options_of(Task::kLanguageModel, 201, -100));
  EXPECT_EQ(source->sample_type(), at::kLong);
  const Batch batch = first_batch(*source);
  EXPECT_TRUE(batch.inputs.equal(at::tensor({0, 200, 2, 3, 4, 5}, at::kLong).view({2, 3})));
  EXPECT_TRUE(batch.targets.equal(at::tensor({1, 2, -100, 4, 5, -100}, at::kLong).view({2, 3})));
  EXPECT_FALSE(source->mask_padding());
  EXPECT_EQ(source->fingerprint()["dtype"], "uint8");
}

TEST_F(RawTargets, IgnoreIndexIsForTargetsOnly) {
  const Json y = targets(std::vector<int32_t>{1, 2, 3, 4}, {2}, "int32");
  const Json x = array(folder_.write_values("x", std::vector<int32_t>{1, 2, 3, -100}), {2}, "int32");
  EXPECT_EQ(error_with(x, y, options_of(Task::kLanguageModel, 9, -100)).message,
            "data.train.inputs has token -100 at sample 1 [1], which is not in [0, 9)");
  EXPECT_THAT(error_with(y, x, options_of(Task::kLanguageModel, 9)).message,
              HasSubstr("data.train.targets has token -100 at sample 1 [1]"));
  EXPECT_NO_THROW(open(y, x, options_of(Task::kLanguageModel, 9, -100)));
}

TEST_F(RawTargets, TokensMustBeIntegersOfOneLength) {
  const Json good = targets(std::vector<int32_t>{1, 2, 3, 4}, {2}, "int32");
  EXPECT_THAT(spec_error(inputs({2}), good, Task::kLanguageModel),
              HasSubstr("data.train.inputs is float32 [2]: language_model takes tokens: integers [length]"));
  EXPECT_THAT(spec_error(inputs({1, 2}, "int32"), good, Task::kLanguageModel), HasSubstr("inputs is int32 [1, 2]"));
  EXPECT_THAT(spec_error(inputs({3}, "int32"), good, Task::kLanguageModel),
              HasSubstr("data.train.targets is int32 [2]: language_model needs an integer for each of the [3] tokens"));
}

TEST_F(RawTargets, IdxIsForClassification) {
  for (const Task task : {Task::kSegmentation, Task::kRegression, Task::kLanguageModel}) {
    const Error error = error_of([&] { open_source(idx_plan("/i", "/l"), "data.val", options_of(task)); });
    EXPECT_EQ(error.kind, ErrorKind::kSpec);
    EXPECT_THAT(error.message, HasSubstr("data.val: idx is for the task classification, not for "));
  }
}

}  // namespace
}  // namespace gputrain

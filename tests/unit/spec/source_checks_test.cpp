// Data sets against task and model.
#include "spec_testing.h"

namespace gputrain {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string raw(const std::string& inputs, const std::string& targets) {
  return "data.train={format: raw, inputs: {path: a, " + inputs + "}, targets: {path: b, " + targets + "}}";
}

// kGood for a task, with its model and data.
std::vector<std::string> problems_of(const std::vector<std::string>& task, std::vector<std::string> sets) {
  sets.insert(sets.begin(), task.begin(), task.end());
  return problems_with(sets);
}
const std::vector<std::string> kText{"task=language_model", "model={name: gpt, args: {context: 64, vocab_size: 65}}"};
const std::vector<std::string> kMasks{"task=segmentation", "model={name: unet2d, args: {num_classes: 5, levels: 2}}"};
const std::vector<std::string> kVolumes{"task=segmentation", "model={name: unet3d, args: {num_classes: 5, levels: 2}}"};
const std::vector<std::string> kValues{"task=regression", "model={name: mlp, args: {num_classes: 3}}"};
const std::string kImages = "shape: [3, 16, 24], dtype: uint8";

TEST(SourceChecks, TokensAreForLanguageModels) {
  const std::string tokens = "data.train={format: tokens, path: a.bin, dtype: uint16, context: 64}";
  EXPECT_THAT(problems_of(kText, {tokens}), IsEmpty());
  EXPECT_THAT(problems_with({tokens}),
              Contains(HasSubstr("data.train.format: tokens is for language_model, but task is classification")));
  EXPECT_THAT(
      problems_of(kText, {"data.train={format: idx, images: a, labels: b}", "data.transforms.train=[to_tensor]"}),
      ElementsAre(HasSubstr("data.train.format: idx is for classification, but task is language_model")));
}

TEST(SourceChecks, TokensHaveTheirArguments) {
  EXPECT_THAT(problems_of(kText, {"data.train={format: tokens, path: a.bin, dtype: int16, context: 64}"}),
              ElementsAre(HasSubstr("data.train.dtype: expected one of uint8, uint16, uint32, got \"int16\"")));
  EXPECT_THAT(problems_of(kText, {"data.train={format: tokens, path: a.bin, dtype: uint8, context: 0}"}),
              ElementsAre(HasSubstr("data.train.context: expected an integer of at least 1")));
  EXPECT_THAT(problems_of(kText, {"data.train={format: tokens, path: a.bin}"}),
              ElementsAre(HasSubstr("data.train.dtype: missing"), HasSubstr("data.train.context: missing")));
  EXPECT_THAT(problems_of(kText, {"data.train={format: tokens, path: a.bin, dtype: uint8, context: 9, offset: -1}"}),
              ElementsAre(HasSubstr("data.train.offset: expected an integer of at least 0")));
}

TEST(SourceChecks, AWindowFitsTheModelsContext) {
  const std::string said = "the model takes at most 64 tokens (model.args.context), a sample has 65";
  EXPECT_THAT(problems_of(kText, {"data.train={format: tokens, path: a.bin, dtype: uint8, context: 65}"}),
              ElementsAre(AllOf(HasSubstr("data.train.context: " + said), HasSubstr("hint: make windows shorter"))));
  EXPECT_THAT(problems_of(kText, {raw("shape: [65], dtype: int32", "shape: [65], dtype: int64")}),
              ElementsAre(HasSubstr("data.train.inputs.shape: " + said)));
  const std::string made = "data.train={format: synthetic, samples: 9, shape: [65], num_classes: 65, targets: tokens}";
  EXPECT_THAT(problems_of(kText, {made}), ElementsAre(HasSubstr("data.train.shape: " + said)));
}

TEST(SourceChecks, RawTokens) {
  EXPECT_THAT(problems_of(kText, {raw("shape: [64], dtype: uint8", "shape: [64], dtype: int64")}), IsEmpty());
  EXPECT_THAT(problems_of(kText, {raw("shape: [64], dtype: float32", "shape: [64], dtype: float32")}),
              ElementsAre(HasSubstr("data.train.inputs.dtype: tokens are integers, got float32"),
                          HasSubstr("data.train.targets.dtype: the next tokens of [64] are integers, got float32")));
  EXPECT_THAT(problems_of(kText, {raw("shape: [64], dtype: int32", "shape: [], dtype: int32")}),
              ElementsAre(HasSubstr("targets.shape: the next tokens of [64] have the shape [64], got []")));
  EXPECT_THAT(problems_of(kText, {raw("shape: [8, 8], dtype: int32", "shape: [8, 8], dtype: int32")}),
              ElementsAre(HasSubstr("inputs.shape: language_model takes tokens [length], but a sample is [8, 8]")));
}

TEST(SourceChecks, TransformsAreNotForTokens) {
  const std::string tokens = "data.train={format: tokens, path: a.bin, dtype: uint8, context: 64}";
  EXPECT_THAT(problems_of(kText, {tokens, "data.transforms.train=[random_horizontal_flip]"}),
              ElementsAre(HasSubstr("data.transforms.train[0]: random_horizontal_flip is for 8-bit pixels and floats, "
                                    "but a sample is int64 here\nhint: leave it out")));
  EXPECT_THAT(problems_of(kText, {tokens, "data.transforms.train=[to_tensor]"}),
              ElementsAre(HasSubstr("to_tensor turns 8-bit pixels into floats, but a sample is int64 here")));
  EXPECT_THAT(problems_of(kText, {raw("shape: [64], dtype: uint8", "shape: [64], dtype: uint8"),
                                  "data.transforms.train=[{normalize: {mean: [0], std: [1]}}]"}),
              ElementsAre(HasSubstr("normalize is for 8-bit pixels and floats, but a sample is int64")));
}

TEST(SourceChecks, Masks) {
  const std::string transforms = "data.transforms.train=[random_horizontal_flip, to_tensor]";
  EXPECT_THAT(problems_of(kMasks, {raw(kImages, "shape: [16, 24], dtype: uint8"), transforms}), IsEmpty());
  EXPECT_THAT(
      problems_of(kMasks, {raw(kImages, "shape: [1, 16, 24], dtype: uint8"), transforms}),
      ElementsAre(HasSubstr(
          "data.train.targets.shape: masks of images of [3, 16, 24] have the shape [16, 24], got [1, 16, 24]")));
  EXPECT_THAT(problems_of(kMasks, {raw(kImages, "shape: [16, 24], dtype: float32"), transforms}),
              ElementsAre(HasSubstr("targets.dtype: masks of images of [3, 16, 24] are integers, got float32")));
  EXPECT_THAT(problems_of(kMasks, {raw("shape: [16], dtype: float32", "shape: [], dtype: uint8")}),
              Contains(HasSubstr("inputs.shape: segmentation takes images [channels, height, width] or [channels, "
                                 "depth, height, width], but a sample is [16]")));
  EXPECT_THAT(problems_of(kVolumes, {raw("shape: [1, 8, 16, 24], dtype: float32", "shape: [8, 16, 24], dtype: uint8")}),
              IsEmpty());
  EXPECT_THAT(problems_of(kVolumes, {raw("shape: [1, 8, 16, 24], dtype: float32", "shape: [8, 16, 24], dtype: uint8"),
                                     "data.transforms.train=[random_horizontal_flip]"}),
              ElementsAre(HasSubstr("needs images [channels, height, width], but a sample is [1, 8, 16, 24]")));
}

TEST(SourceChecks, AUNetTakesTheImages) {
  const auto images = [](const std::string& shape, const std::string& mask) {
    return raw("dtype: float32, shape: " + shape, "dtype: uint8, shape: " + mask);
  };
  EXPECT_THAT(problems_of(kMasks, {images("[3, 16, 22]", "[16, 22]")}),
              ElementsAre(HasSubstr("model.args.levels: 2 levels need sizes that are multiples of 4, but a sample of "
                                    "data.train is [3, 16, 22]")));
  EXPECT_THAT(
      problems_of(kMasks, {images("[3, 16, 22]", "[16, 22]"), "data.transforms.train=[{random_crop: {size: 12}}]"}),
      IsEmpty());  // of what the model sees
  EXPECT_THAT(problems_of(kMasks, {images("[4, 16, 16]", "[16, 16]")}),
              ElementsAre(HasSubstr("model.args.in_channels: 3, but data.train has 4 channels")));
  EXPECT_THAT(problems_of(kVolumes, {images("[2, 8, 8, 8]", "[8, 8, 8]")}),
              ElementsAre(HasSubstr("model.args.in_channels: 1, but data.train has 2 channels")));
  EXPECT_THAT(problems_of(kMasks, {images("[3, 8, 8, 8]", "[8, 8, 8]")}),
              ElementsAre(HasSubstr("unet2d takes images [channels, height, width], but a sample of data.train is")));
  EXPECT_THAT(problems_of(kVolumes, {images("[1, 8, 8]", "[8, 8]")}),
              ElementsAre(HasSubstr("unet3d takes volumes [channels, depth, height, width], but a sample of")));
}

TEST(SourceChecks, Values) {
  for (const std::string targets :
       {"shape: [3], dtype: float32", "shape: [3], dtype: int16", "shape: [1, 3], dtype: float64"})
    EXPECT_THAT(problems_of(kValues, {raw("shape: [784], dtype: float32", targets)}), IsEmpty()) << targets;
  EXPECT_THAT(
      problems_of(kValues, {raw("shape: [784], dtype: float32", "shape: [], dtype: float32")}),
      ElementsAre(HasSubstr("data.train.targets.shape: the model has 3 outputs, a target has 1 value\nhint: set "
                            "model.args.num_classes")));
}

TEST(SourceChecks, IntegersThatNothingMakesFloats) {
  EXPECT_THAT(problems_with({raw("shape: [784], dtype: int16", "shape: [], dtype: uint8")}),
              ElementsAre(HasSubstr("data.train: the samples are int16 and the model takes floats")));
}

TEST(SourceChecks, SyntheticTargets) {
  const auto made = [](const std::string& rest) { return "data.train={format: synthetic, samples: 9, " + rest + "}"; };
  EXPECT_THAT(problems_of(kText, {made("shape: [64], num_classes: 65, targets: tokens")}), IsEmpty());
  EXPECT_THAT(problems_of(kMasks, {made("shape: [3, 8, 8], num_classes: 5, targets: mask")}), IsEmpty());
  EXPECT_THAT(problems_of(kVolumes, {made("shape: [1, 8, 8, 8], num_classes: 5, targets: mask")}), IsEmpty());
  EXPECT_THAT(problems_of(kValues, {made("shape: [784], num_classes: 3, targets: values")}), IsEmpty());
  EXPECT_THAT(problems_of(kText, {made("shape: [64], num_classes: 66, targets: tokens")}),
              ElementsAre(HasSubstr("data.train.num_classes: the model has only 65 outputs")));
  EXPECT_THAT(problems_of(kText, {made("shape: [8, 8], num_classes: 65, targets: tokens")}),
              ElementsAre(HasSubstr("data.train.shape: language_model takes tokens [length]")));
  EXPECT_THAT(problems_of(kMasks, {made("shape: [8], num_classes: 5, targets: mask")}),
              Contains(HasSubstr("data.train.shape: segmentation takes images")));
  EXPECT_THAT(problems_of(kValues, {made("shape: [784], num_classes: 2, targets: values")}),
              ElementsAre(HasSubstr("data.train.num_classes: the model has 3 outputs, a target has 2 values")));
  EXPECT_THAT(problems_of(kValues, {made("shape: [784], num_classes: 3")}),
              ElementsAre(HasSubstr("data.train.targets: class is for classification, but task is regression")));
  EXPECT_THAT(problems_with({made("shape: [784], num_classes: 3, targets: labels")}),
              ElementsAre(HasSubstr("data.train.targets: expected one of class, tokens, mask, values")));
}

}  // namespace
}  // namespace gputrain

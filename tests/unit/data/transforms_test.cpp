#include "data/transforms.h"

#include <cmath>

#include <ATen/ATen.h>

#include "unit/data/data_files.h"

namespace gputrain {
namespace {

using testing::HasSubstr;
using namespace test;

const Json kMean3 = {0.4914, 0.4822, 0.4465}, kStd3 = {0.2470, 0.2435, 0.2616};

Named to_tensor() {
  return {"to_tensor"};
}
Named normalize(const Json& mean, const Json& std) {
  return {"normalize", {{"mean", mean}, {"std", std}}};
}
Named flip(double p) {
  return {"random_horizontal_flip", {{"p", p}}};
}
Named crop(int64_t size, int64_t padding) {
  return {"random_crop", {{"size", size}, {"padding", padding}}};
}

SampleSpec spec_of(const at::Tensor& sample) {
  return {sample.sizes().vec(), sample.scalar_type()};
}

at::Tensor random_bytes(at::IntArrayRef sizes) {
  return at::randint(0, 256, sizes, at::kByte);
}

at::Tensor run(const Pipeline& pipeline, const at::Tensor& raw, int64_t epoch = 0, int64_t id = 0) {
  at::Tensor row = at::full(pipeline.output().shape, -77, pipeline.output().type);
  pipeline.apply(raw.data_ptr(), row.data_ptr(), epoch, id);
  return row;
}

at::Tensor run(const std::vector<Named>& transforms, const at::Tensor& raw, at::ScalarType type = at::kFloat) {
  return run(*make_pipeline(transforms, spec_of(raw), {.float_type = type}), raw);
}

// What torchvision does, by the operators that it calls.
at::Tensor reference_normalize(const at::Tensor& x, const Json& mean, const Json& std) {
  const auto column = [&](const Json& values) {
    return at::tensor(values.get<std::vector<double>>(), at::kDouble).to(x.scalar_type()).view({-1, 1, 1});
  };
  return x.sub(column(mean)).div_(column(std));
}

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() &&
         std::memcmp(a.contiguous().data_ptr(), b.contiguous().data_ptr(), a.nbytes()) == 0;
}

TEST(Transforms, ToTensorIsDivisionBy255) {
  const at::Tensor all = at::arange(256, at::kByte).view({1, 16, 16});
  for (at::ScalarType type : {at::kFloat, at::kDouble}) {
    EXPECT_TRUE(same_bits(run({to_tensor()}, all, type), all.to(type).div(255)));
  }
}

TEST(Transforms, NormalizeEqualsTorchvisionBitForBit) {
  for (at::ScalarType type : {at::kFloat, at::kDouble}) {
    const at::Tensor image = random_bytes({3, 32, 32});
    EXPECT_TRUE(same_bits(run({to_tensor(), normalize(kMean3, kStd3)}, image, type),
                          reference_normalize(image.to(type).div(255), kMean3, kStd3)));
    const at::Tensor grey = random_bytes({1, 28, 28});
    EXPECT_TRUE(same_bits(run({to_tensor(), normalize({0.2860}, {0.3530})}, grey, type),
                          reference_normalize(grey.to(type).div(255), {0.2860}, {0.3530})));
  }
}

TEST(Transforms, OneValueServesAllChannels) {
  const at::Tensor image = random_bytes({3, 5, 7});
  EXPECT_TRUE(same_bits(run({to_tensor(), normalize({0.5}, {0.25})}, image),
                        reference_normalize(image.to(at::kFloat).div(255), {0.5}, {0.25})));
}

TEST(Transforms, SeveralNormalizesApplyInOrder) {
  const at::Tensor image = random_bytes({3, 5, 7});
  const at::Tensor once = reference_normalize(image.to(at::kFloat).div(255), kMean3, kStd3);
  EXPECT_TRUE(same_bits(run({to_tensor(), normalize(kMean3, kStd3), normalize({0.1}, {3})}, image),
                        reference_normalize(once, {0.1}, {3})));
}

TEST(Transforms, FloatArraysAreNormalizedInTheFloatType) {
  for (at::ScalarType input : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16}) {
    for (at::ScalarType type : {at::kFloat, at::kDouble}) {
      const at::Tensor image = at::rand({3, 9, 11}).to(input);
      EXPECT_TRUE(
          same_bits(run({normalize(kMean3, kStd3)}, image, type), reference_normalize(image.to(type), kMean3, kStd3)))
          << input << type;
    }
  }
}

TEST(Transforms, ArraysPassThroughOrChangeTheirFloatType) {
  const auto pipeline_of = [](SampleSpec spec, at::ScalarType type) {
    return make_pipeline({}, spec, {.float_type = type});
  };
  EXPECT_TRUE(pipeline_of({{784}, at::kFloat}, at::kFloat)->is_copy());
  EXPECT_TRUE(pipeline_of({{784}, at::kLong}, at::kFloat)->is_copy());
  EXPECT_TRUE(pipeline_of({{2, 3}, at::kDouble}, at::kDouble)->is_copy());
  const at::Tensor wide = at::rand({2, 3, 4, 5}, at::kDouble);
  EXPECT_TRUE(same_bits(run({}, wide, at::kFloat), wide.to(at::kFloat)));
  EXPECT_TRUE(same_bits(run({to_tensor()}, random_bytes({7}).fill_(51)), at::full({7}, 51.f).div(255)));
}

TEST(Transforms, CertainFlipMirrorsTheWidth) {
  const at::Tensor image = random_bytes({3, 4, 5});
  const at::Tensor expected = reference_normalize(image.flip({2}).to(at::kFloat).div(255), kMean3, kStd3);
  EXPECT_TRUE(same_bits(run({flip(1), to_tensor(), normalize(kMean3, kStd3)}, image), expected));
  EXPECT_TRUE(same_bits(run({to_tensor(), normalize(kMean3, kStd3), flip(1)}, image), expected));
  EXPECT_TRUE(same_bits(run({flip(1), flip(1), to_tensor()}, image), image.to(at::kFloat).div(255)));
  EXPECT_TRUE(same_bits(run({flip(0), to_tensor()}, image), image.to(at::kFloat).div(255)));
  const at::Tensor floats = at::rand({2, 3, 4});
  EXPECT_TRUE(same_bits(run({flip(1)}, floats), floats.flip({2})));
}

// Every crop that comes out is one of those that padding and slicing give, and in the end all of them come.
void expect_all_crops(const at::Tensor& image, int64_t size, int64_t padding, bool mirrored) {
  std::vector<Named> transforms{crop(size, padding), to_tensor(), normalize(kMean3, kStd3)};
  transforms.insert(mirrored ? transforms.begin() : transforms.end(), flip(1));
  const at::Tensor padded =
      at::constant_pad_nd(mirrored ? image.flip({2}) : image, {padding, padding, padding, padding}, 0);
  const int64_t rows = padded.size(1) - size + 1, columns = padded.size(2) - size + 1;
  std::vector<at::Tensor> expected;
  for (int64_t y = 0; y < rows; ++y) {
    for (int64_t x = 0; x < columns; ++x) {
      at::Tensor part = padded.slice(1, y, y + size).slice(2, x, x + size);
      if (!mirrored) part = part.flip({2});
      expected.push_back(reference_normalize(part.to(at::kFloat).div(255), kMean3, kStd3));
    }
  }
  const auto pipeline = make_pipeline(transforms, spec_of(image), {});
  std::vector<int> hits(expected.size());
  const int64_t draws = static_cast<int64_t>(expected.size()) * 40;
  for (int64_t id = 0; id < draws; ++id) {
    const at::Tensor got = run(*pipeline, image, 0, id);
    const auto at =
        std::find_if(expected.begin(), expected.end(), [&](const auto& one) { return same_bits(one, got); });
    ASSERT_NE(at, expected.end());
    ++hits[static_cast<size_t>(at - expected.begin())];
  }
  for (int count : hits) EXPECT_NEAR(count, 40, 32);  // 5 sigma
}

TEST(Transforms, RandomCropIsPaddingAndSlicing) {
  at::manual_seed(1);
  expect_all_crops(random_bytes({3, 6, 7}), 6, 2, false);
  expect_all_crops(random_bytes({3, 6, 7}), 6, 2, true);
  expect_all_crops(random_bytes({3, 5, 5}), 3, 0, true);
  expect_all_crops(random_bytes({3, 2, 3}), 4, 3, true);
}

TEST(Transforms, CropsOfCropsKeepTheirPadding) {
  const at::Tensor image = random_bytes({1, 4, 4});
  // Centred, so nothing is random: pad 3 -> 10 wide, cut to 8 (1 off each side: 2 of padding), then cut to 6 (1 more
  // off).
  const auto pipeline = make_pipeline({crop(8, 3), crop(6, 0), to_tensor()}, spec_of(image), {.augment = false});
  EXPECT_TRUE(same_bits(run(*pipeline, image), at::constant_pad_nd(image, {1, 1, 1, 1}, 0).to(at::kFloat).div(255)));
}

TEST(Transforms, WithoutAugmentationNothingIsRandom) {
  const at::Tensor image = random_bytes({3, 32, 32});
  const auto pipeline = make_pipeline({flip(1), crop(32, 4), to_tensor()}, spec_of(image), {.augment = false});
  for (int64_t id : {0, 1, 2}) EXPECT_TRUE(same_bits(run(*pipeline, image, 0, id), image.to(at::kFloat).div(255)));
}

TEST(Transforms, RandomnessIsKeyedBySeedEpochSampleAndPlace) {
  const at::Tensor image = at::arange(2, at::kByte).view({1, 1, 2});
  const auto flips = [&](uint64_t seed, int64_t epoch, const std::vector<Named>& list) {
    const auto pipeline = make_pipeline(list, spec_of(image), {.seed = seed});
    std::string all;
    for (int64_t id = 0; id < 64; ++id) all += run(*pipeline, image, epoch, id)[0][0][0].item<float>() > 0 ? '1' : '0';
    return all;
  };
  const auto base = flips(1, 0, {flip(0.5), to_tensor()});
  EXPECT_EQ(base, flips(1, 0, {flip(0.5), to_tensor()}));
  EXPECT_NE(base, flips(2, 0, {flip(0.5), to_tensor()}));
  EXPECT_NE(base, flips(1, 1, {flip(0.5), to_tensor()}));
  EXPECT_NE(base, flips(1, 0, {to_tensor(), flip(0.5)}));
  // A contract like the order: augmentation continues under the next version.
  EXPECT_EQ(base, "1111101110110111010001010111111101100100110000111101010000111101");
  const auto count = std::count(base.begin(), base.end(), '1');
  EXPECT_NEAR(static_cast<double>(count), 32, 20);
}

TEST(Transforms, FlipFollowsItsProbability) {
  const at::Tensor image = at::arange(2, at::kByte).view({1, 1, 2});
  for (double p : {0.1, 0.5, 0.9}) {
    const auto pipeline = make_pipeline({flip(p), to_tensor()}, spec_of(image), {});
    int flipped = 0;
    for (int64_t id = 0; id < 10000; ++id) flipped += run(*pipeline, image, 0, id)[0][0][0].item<float>() > 0;
    EXPECT_NEAR(flipped, 10000 * p, 5 * std::sqrt(10000 * p * (1 - p)));
  }
}

TEST(Transforms, AreNamed) {
  EXPECT_EQ(transform_names(),
            (std::vector<std::string>{"random_horizontal_flip", "random_crop", "to_tensor", "normalize"}));
}

std::string refusal(const std::vector<Named>& transforms, const SampleSpec& spec = {{3, 8, 8}, at::kByte}) {
  const Error error = error_of([&] { make_pipeline(transforms, spec, {}); });
  EXPECT_EQ(error.kind, ErrorKind::kSpec);
  return error.render();
}

TEST(Transforms, RefuseListsThatDoNotFit) {
  EXPECT_THAT(refusal({}), HasSubstr("add to_tensor to the transforms"));
  EXPECT_THAT(refusal({flip(0.5)}), HasSubstr("the samples are uint8 [3, 8, 8]"));
  EXPECT_THAT(refusal({normalize({0}, {1})}), HasSubstr("put to_tensor before it"));
  EXPECT_THAT(refusal({to_tensor(), to_tensor()}), HasSubstr("here the samples are float32 [3, 8, 8]"));
  EXPECT_THAT(refusal({to_tensor()}, {{3, 8, 8}, at::kFloat}), HasSubstr("leave it out"));
  EXPECT_THAT(refusal({to_tensor(), normalize({0, 1}, {1})}), HasSubstr("2 values for 3 channels"));
  EXPECT_THAT(refusal({to_tensor(), normalize({0}, {1, 1, 1, 1})}), HasSubstr("4 values for 3 channels"));
  EXPECT_THAT(refusal({to_tensor(), normalize({0}, {1, 0, 1})}), HasSubstr("divides by zero"));
  EXPECT_THAT(refusal({to_tensor(), normalize({0}, {1e-60})}), HasSubstr("divides by zero"));  // zero as a float
  EXPECT_THAT(refusal({crop(13, 2), to_tensor()}),
              HasSubstr("size 13 is larger than the image uint8 [3, 8, 8] with padding 2"));
  EXPECT_THAT(refusal({to_tensor(), normalize({0}, {1}), crop(8, 2)}), HasSubstr("put random_crop before normalize"));
  EXPECT_THAT(refusal({flip(0.5)}, {{784}, at::kFloat}), HasSubstr("needs images [channels, height, width]"));
  EXPECT_THAT(refusal({flip(0.5)}, {{1, 2, 3}, at::kLong}), HasSubstr("not int64 [1, 2, 3]"));
  EXPECT_THAT(refusal({normalize({0}, {1})}, {{784}, at::kFloat}), HasSubstr("not float32 [784]"));
}

TEST(Transforms, RefuseUnknownNamesAndBadArguments) {
  EXPECT_THAT(refusal({{"to_tensr"}}), HasSubstr("did you mean to_tensor?"));
  EXPECT_THAT(refusal({{"zzz"}}), HasSubstr("the transforms are random_horizontal_flip, random_crop"));
  EXPECT_THAT(refusal({{"to_tensor", {{"scale", 1}}}}), HasSubstr("to_tensor has no argument 'scale'"));
  EXPECT_THAT(refusal({{"random_horizontal_flip", {{"prob", 1}}}}), HasSubstr("it takes p"));
  EXPECT_THAT(refusal({flip(1.5)}), HasSubstr("a probability in [0, 1], not 1.5"));
  EXPECT_THAT(refusal({{"random_horizontal_flip", {{"p", "often"}}}}), HasSubstr("must be a number, not \"often\""));
  EXPECT_THAT(refusal({{"random_crop", Json::object()}}), HasSubstr("random_crop needs the argument 'size'"));
  EXPECT_THAT(refusal({{"random_crop", {{"size", 2.5}}}}), HasSubstr("must be an integer, not 2.5"));
  EXPECT_THAT(refusal({crop(0, 0)}), HasSubstr("size is at least 1"));
  EXPECT_THAT(refusal({crop(4, -1)}), HasSubstr("padding at least 0"));
  EXPECT_THAT(refusal({to_tensor(), normalize(0.5, {1})}), HasSubstr("must be a list of numbers"));
  EXPECT_THAT(refusal({to_tensor(), normalize(Json::array(), {1})}), HasSubstr("must be a list of numbers"));
}

TEST(Transforms, ArgumentsHaveDefaults) {
  const at::Tensor image = random_bytes({1, 4, 4});
  EXPECT_NO_THROW(run({{"random_horizontal_flip"}, {"random_crop", {{"size", 3}}}, to_tensor()}, image));
}

}  // namespace
}  // namespace gputrain

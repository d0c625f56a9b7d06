// What is the U-Net's own; names, weights and results against the Python twin are model_test.cpp's.
#include "model/unet.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/golden.h"
#include "util/error.h"

namespace gputrain {
namespace {

using ::testing::HasSubstr;

std::shared_ptr<Model> unet(const std::string& name, const std::string& norm = "instance") {
  return make_model({.name = name, .args = {{"width", 4}, {"levels", 2}, {"num_classes", 3}, {"norm", norm}}}, 1,
                    at::kFloat);
}

Error forward_error(const std::string& name, at::IntArrayRef shape) {
  try {
    unet(name)->forward(at::zeros(shape));
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no error for " << name << " " << shape;
  return Error(ErrorKind::kInternal, "none");
}

TEST(UNet, MasksHaveTheSizeOfTheirImages) {
  EXPECT_EQ(unet("unet2d")->forward(at::zeros({2, 3, 8, 12})).sizes().vec(), (std::vector<int64_t>{2, 3, 8, 12}));
  EXPECT_EQ(unet("unet3d")->forward(at::zeros({1, 1, 4, 8, 12})).sizes().vec(), (std::vector<int64_t>{1, 3, 4, 8, 12}));
}

TEST(UNet, DefaultsAreFourLevelsFrom32Channels) {
  const auto model = make_model({.name = "unet3d"}, 1, at::kFloat);
  const auto named = model->named_parameters();
  EXPECT_EQ(named["encoder.0.conv1.weight"].sizes().vec(), (std::vector<int64_t>{32, 1, 3, 3, 3}));
  EXPECT_EQ(named["bottleneck.conv2.weight"].sizes().vec(), (std::vector<int64_t>{512, 512, 3, 3, 3}));
  EXPECT_EQ(named["decoder.3.up.weight"].sizes().vec(), (std::vector<int64_t>{64, 32, 2, 2, 2}));
  EXPECT_EQ(named["head.weight"].sizes().vec(), (std::vector<int64_t>{2, 32, 1, 1, 1}));
  EXPECT_TRUE(model->buffers().empty());
}

// Of each other: the gradient then equals one process's with the full batch.
TEST(UNet, InstanceNormKeepsSamplesApart) {
  const auto model = unet("unet2d");
  const at::Tensor x = testing::ramp({2, 3, 8, 8}, at::kFloat);
  EXPECT_TRUE(at::allclose(model->forward(x)[1], model->forward(x.narrow(0, 1, 1))[0], 1e-5, 1e-6));
}

TEST(UNet, BatchNormHasItsBuffers) {
  std::vector<std::string> names;
  for (const auto& [name, buffer] : named_buffers_of(*unet("unet2d", "batch"))) names.push_back(name);
  EXPECT_EQ(names.size(), 3u * 10);  // two a double convolution: two levels, bottleneck, two levels
  EXPECT_EQ(names[0], "encoder.0.norm1.running_mean");
}

// Only of images: LibTorch's gradients of volumes in bf16 are not safe on the CPU (spec/resolve.cpp).
TEST(UNet, TrainsUnderBf16Autocast) {
  const auto model = unet("unet2d");
  const at::Tensor x = testing::ramp({2, 3, 8, 8}, at::kFloat);
  const at::Tensor expected = model->forward(x);
  at::autocast::set_autocast_enabled(at::kCPU, true);
  at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
  const at::Tensor logits = model->forward(x);
  at::autocast::set_autocast_enabled(at::kCPU, false);
  at::autocast::clear_cache();
  EXPECT_LT(testing::relative_difference(logits, expected), 5e-2);
  logits.to(at::kFloat).pow(2).sum().backward();
  for (const auto& [parameter, tensor] : named_parameters_of(*model)) {
    EXPECT_TRUE(tensor.grad().isfinite().all().item<bool>()) << parameter;
  }
}

TEST(UNet, ChannelsLastGivesTheSameMask) {
  const auto model = unet("unet2d");
  const at::Tensor x = testing::ramp({2, 3, 8, 8}, at::kFloat);
  const at::Tensor expected = model->forward(x);
  for (auto& [name, tensor] : named_parameters_of(*model)) {
    if (tensor.dim() == 4) tensor.set_data(tensor.contiguous(at::MemoryFormat::ChannelsLast));
  }
  const at::Tensor mask = model->forward(x.contiguous(at::MemoryFormat::ChannelsLast));
  EXPECT_LT(testing::relative_difference(mask, expected), 1e-5);
}

TEST(UNet, SizesThatCannotBeHalvedAreNamed) {
  const Error error = forward_error("unet2d", {1, 3, 8, 10});
  EXPECT_EQ(error.kind, ErrorKind::kData);
  EXPECT_EQ(error.message,
            "unet2d halves a sample 2 times: each size must be a multiple of 4, the data brings [8, 10]");
  EXPECT_EQ(error.where, "model.args.levels");
  EXPECT_THAT(forward_error("unet3d", {1, 1, 2, 8, 8}).message, HasSubstr("the data brings [2, 8, 8]"));
}

TEST(UNet, OneValueAChannelCannotBeNormalisedByItself) {
  const Error error = forward_error("unet3d", {1, 1, 4, 4, 4});
  EXPECT_EQ(error.kind, ErrorKind::kData);
  EXPECT_THAT(error.message, HasSubstr("halves samples of [4, 4, 4] to one value a channel"));
  EXPECT_EQ(unet("unet3d", "batch")->forward(at::zeros({2, 1, 4, 4, 4})).size(0), 2);
}

TEST(UNet, OtherChannelsAndDimensionsAreDataErrors) {
  const Error error = forward_error("unet2d", {1, 1, 8, 8});
  EXPECT_EQ(error.kind, ErrorKind::kData);
  EXPECT_EQ(error.message, "unet2d takes samples of 3 channels and 2 dimensions, the data brings [1, 8, 8]");
  EXPECT_EQ(forward_error("unet2d", {1, 3, 8, 8, 8}).kind, ErrorKind::kData);
  EXPECT_EQ(forward_error("unet3d", {1, 1, 8, 8}).kind, ErrorKind::kData);
}

TEST(UNet, UnknownNormIsASpecError) {
  try {
    unet("unet2d", "layer");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind, ErrorKind::kSpec);
    EXPECT_EQ(error.message, "unet2d has no norm layer");
  }
}

}  // namespace
}  // namespace gputrain

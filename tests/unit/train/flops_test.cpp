#include "train/flops.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "dist/comm_single.h"
#include "model/model.h"
#include "support/run_ranks.h"

namespace gputrain {
namespace {

constexpr double kTera = 1e12;

int64_t forward_flops(const std::string& name, const Json& args, const std::vector<int64_t>& batch) {
  const auto model = make_model({.name = name, .args = args}, 1, at::kFloat);
  model->eval();
  const at::NoGradGuard no_grad;
  return count_flops([&] { model->forward(at::zeros(batch)); });
}

TEST(CountFlops, AnMlpIsItsMatrices) {
  const Json args{{"in_features", 784}, {"hidden", {256, 256}}, {"num_classes", 10}, {"dropout", 0.0}};
  const int64_t sample = 2 * (784 * 256 + 256 * 256 + 256 * 10);
  EXPECT_EQ(forward_flops("mlp", args, {1, 784}), sample);
  EXPECT_EQ(forward_flops("mlp", args, {7, 784}), 7 * sample);
}

// Goldens: torch.utils.flop_counter.FlopCounterMode (torch 2.11) around torchvision 0.26's models; the transformer in
// training mode under sdpa_kernel(SDPBackend.MATH), since FlopCounterMode has no formula for the CPU's fused attention.
TEST(CountFlops, ModelsAsPythonsCounter) {
  const Json images{{"in_channels", 3}, {"num_classes", 1000}};
  EXPECT_EQ(forward_flops("resnet18", images, {1, 3, 224, 224}), 3628146688);
  EXPECT_EQ(forward_flops("resnet50", images, {1, 3, 224, 224}), 8178368512);
  EXPECT_EQ(forward_flops("vit_s_16", {{"image_size", 224}, {"num_classes", 1000}, {"dropout", 0.0}}, {1, 3, 224, 224}),
            9197764608);
}

// The same counter's figures.
TEST(CountFlops, OperationsAsPythonsCounter) {
  const at::NoGradGuard no_grad;
  EXPECT_EQ(count_flops([] {
              at::conv_transpose2d(at::zeros({1, 8, 5, 5}), at::zeros({8, 4, 2, 2}), {}, {2, 2});
            }),
            6400);
  EXPECT_EQ(count_flops([] {
              at::conv2d(at::zeros({1, 8, 6, 6}), at::zeros({16, 2, 3, 3}), at::zeros({16}), 1, 1, 1, 4);
            }),
            20736);
  EXPECT_EQ(count_flops([] {
              at::conv3d(at::zeros({1, 2, 4, 5, 6}), at::zeros({4, 2, 3, 3, 3}), {}, 1, at::IntArrayRef{1});
            }),
            51840);
  EXPECT_EQ(
      count_flops([] {
        at::scaled_dot_product_attention(at::zeros({1, 3, 7, 8}), at::zeros({1, 3, 9, 8}), at::zeros({1, 3, 9, 4}));
      }),
      4536);
}

TEST(CountFlops, BothAttentionsCountTheSame) {
  const at::NoGradGuard no_grad;
  const at::Tensor x = at::zeros({2, 4, 16, 8});
  const int64_t expected = 2 * (2 * 4 * 16 * 16 * 8) * 2;
  EXPECT_EQ(count_flops([&] { at::scaled_dot_product_attention(x, x, x); }), expected) << "fused";
  EXPECT_EQ(count_flops([&] { at::matmul(at::softmax(at::matmul(x, x.transpose(2, 3)), -1), x); }), expected)
      << "by hand";
}

TEST(CountFlops, NothingElseCountsAndNothingIsLeftBehind) {
  const at::Tensor x = at::ones({4, 4});
  EXPECT_EQ(count_flops([&] { at::relu(x + x).sum(); }), 0);
  at::mm(x, x);
  EXPECT_EQ(count_flops([&] { at::mm(x, x); }), 128);
  EXPECT_THROW(count_flops([&] { at::mm(x, at::ones({3, 3})); }), c10::Error);
  EXPECT_EQ(count_flops([&] { at::mm(x, x); }), 128) << "after one that threw";
}

TEST(PeakFlops, IsTheDensePeakOfThePrecision) {
  EXPECT_EQ(peak_flops("NVIDIA A100-SXM4-80GB", Precision::kBf16), 312 * kTera);
  EXPECT_EQ(peak_flops("NVIDIA A100-SXM4-80GB", Precision::kTf32), 156 * kTera);
  EXPECT_EQ(peak_flops("NVIDIA A100-SXM4-80GB", Precision::kFp32), 19.5 * kTera);
  EXPECT_EQ(peak_flops("NVIDIA H100 80GB HBM3", Precision::kFp16), 989.5 * kTera);
  EXPECT_EQ(peak_flops("NVIDIA H100 PCIe", Precision::kBf16), 756.5 * kTera);
  EXPECT_EQ(peak_flops("NVIDIA H200", Precision::kTf32), 494.5 * kTera);
  EXPECT_EQ(peak_flops("Tesla V100-SXM2-32GB", Precision::kFp16), 125 * kTera);
  EXPECT_EQ(peak_flops("NVIDIA GeForce RTX 4090", Precision::kBf16), 165.2 * kTera);
}

// Trap 46: a wrong peak is worse than none.
TEST(Trap46MfuWithAWrongPeak, AnUnknownOneIsNoGuess) {
  EXPECT_EQ(peak_flops("cpu", Precision::kFp32), std::nullopt);
  EXPECT_EQ(peak_flops("", Precision::kBf16), std::nullopt);
  EXPECT_EQ(peak_flops("NVIDIA A100X", Precision::kBf16), std::nullopt);
  EXPECT_EQ(peak_flops("NVIDIA GeForce RTX 4090 Laptop GPU", Precision::kBf16), std::nullopt);
  EXPECT_EQ(peak_flops("NVIDIA A100-SXM4-40GB MIG 1g.5gb", Precision::kBf16), std::nullopt) << "a seventh of one";
  EXPECT_EQ(peak_flops("Tesla V100-SXM2-16GB", Precision::kBf16), std::nullopt) << "it has no bf16";
  EXPECT_EQ(peak_flops("Tesla T4", Precision::kTf32), std::nullopt);
}

TEST(TotalPeakFlops, IsTheSumOverTheRanksOrUnknown) {
  EXPECT_EQ(total_peak_flops(*make_single_comm(), 3e12), 3e12);
  EXPECT_EQ(total_peak_flops(*make_single_comm(), std::nullopt), std::nullopt);
  EXPECT_EQ(test::run_ranks(2,
                            [](int rank, const CommOptions& options) {
                              const Comms comms = make_comms(options);
                              EXPECT_EQ(total_peak_flops(*comms.control, rank == 0 ? 3e12 : 4e12), 7e12);
                              std::optional<double> mine;
                              if (rank == 0) mine = 3e12;
                              EXPECT_EQ(total_peak_flops(*comms.control, mine), std::nullopt);
                            }),
            test::all_succeed(2));
}

}  // namespace
}  // namespace gputrain

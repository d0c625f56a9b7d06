#include "model/unet.h"

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ops/cat.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/max_pool3d.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/instancenorm.h>

#include "util/error.h"
#include "util/text.h"

namespace gputrain {
namespace {

// The layers of D dimensions.
template <size_t D>
struct Layers;
template <>
struct Layers<2> {
  using Conv = torch::nn::Conv2d;
  using ConvTranspose = torch::nn::ConvTranspose2d;
  using InstanceNorm = torch::nn::InstanceNorm2d;
  using BatchNorm = torch::nn::BatchNorm2d;
  static at::Tensor halve(const at::Tensor& x) { return at::max_pool2d(x, 2); }
};
template <>
struct Layers<3> {
  using Conv = torch::nn::Conv3d;
  using ConvTranspose = torch::nn::ConvTranspose3d;
  using InstanceNorm = torch::nn::InstanceNorm3d;
  using BatchNorm = torch::nn::BatchNorm3d;
  static at::Tensor halve(const at::Tensor& x) { return at::max_pool3d(x, 2); }
};

enum class Norm { kInstance, kBatch };

Norm norm_of(const NamedArgs& args) {
  const std::string word = args.text("norm");
  if (word == "instance") return Norm::kInstance;
  if (word == "batch") return Norm::kBatch;
  throw Error(ErrorKind::kSpec, args.name() + " has no norm " + printable(word), "model.args.norm",
              "use instance or batch");
}

// Twice: 3x3 convolution, normalisation, relu. Children conv1, norm1, conv2, norm2.
template <size_t D>
class DoubleConv : public torch::nn::Module {
 public:
  DoubleConv(int64_t in, int64_t out, Norm norm) {
    for (const std::string number : {"1", "2"}) {
      const auto options = torch::nn::ConvOptions<D>(convs_.empty() ? in : out, out, 3).padding(1).bias(false);
      convs_.push_back(register_module("conv" + number, typename Layers<D>::Conv(options)));
      norms_.push_back(normalisation("norm" + number, out, norm));
    }
  }
  at::Tensor forward(at::Tensor x) {
    for (size_t i = 0; i < convs_.size(); ++i) x = norms_[i](convs_[i]->forward(x)).relu_();
    return x;
  }

 private:
  using Layer = std::function<at::Tensor(const at::Tensor&)>;

  template <typename Module>
  Layer layer(const std::string& name, Module module) {
    register_module(name, module);
    return [module](const at::Tensor& x) mutable { return module->forward(x); };
  }
  Layer normalisation(const std::string& name, int64_t channels, Norm norm) {
    if (norm == Norm::kBatch) return layer(name, typename Layers<D>::BatchNorm(channels));
    return layer(name, typename Layers<D>::InstanceNorm(torch::nn::InstanceNormOptions(channels).affine(true)));
  }

  std::vector<typename Layers<D>::Conv> convs_;
  std::vector<Layer> norms_;
};

// Doubles the size and halves the channels, then convolves what the encoder had at this size together with it.
template <size_t D>
class Up : public torch::nn::Module {
 public:
  Up(int64_t channels, Norm norm)
      : up_(torch::nn::ConvTransposeOptions<D>(2 * channels, channels, 2).stride(2)),
        conv_(std::make_shared<DoubleConv<D>>(2 * channels, channels, norm)) {
    register_module("up", up_);
    register_module("conv", conv_);
  }
  at::Tensor forward(const at::Tensor& x, const at::Tensor& skip) {
    return conv_->forward(at::cat({skip, up_->forward(x)}, 1));
  }

 private:
  typename Layers<D>::ConvTranspose up_;
  std::shared_ptr<DoubleConv<D>> conv_;
};

// The constructions draw from the random generator: encoder, bottleneck, decoder from the bottom up, head.
template <size_t D>
class UNet : public Model {
 public:
  explicit UNet(const NamedArgs& args)
      : name_(args.name()), in_channels_(args.integer("in_channels")), norm_(norm_of(args)) {
    const int64_t levels = args.integer("levels"), width = args.integer("width");
    auto encoder = register_module("encoder", std::make_shared<torch::nn::Module>());
    int64_t in = in_channels_;
    for (int64_t level = 0; level < levels; ++level) {
      const int64_t out = width << level;
      auto conv = std::make_shared<DoubleConv<D>>(in, out, norm_);
      encoder_.push_back(encoder->register_module(std::to_string(level), std::move(conv)));
      in = out;
    }
    bottleneck_ = register_module("bottleneck", std::make_shared<DoubleConv<D>>(in, width << levels, norm_));
    auto decoder = register_module("decoder", std::make_shared<torch::nn::Module>());
    for (int64_t level = levels - 1; level >= 0; --level) {
      auto up = std::make_shared<Up<D>>(width << level, norm_);
      decoder_.push_back(decoder->register_module(std::to_string(decoder_.size()), std::move(up)));
    }
    const torch::nn::ConvOptions<D> to_classes(width, args.integer("num_classes"), 1);
    head_ = register_module("head", typename Layers<D>::Conv(to_classes));
  }

  at::Tensor forward(const at::Tensor& images) override {
    check(images);
    std::vector<at::Tensor> skips;
    at::Tensor x = images;
    for (const auto& level : encoder_) {
      skips.push_back(level->forward(x));
      x = Layers<D>::halve(skips.back());
    }
    x = bottleneck_->forward(x);
    for (const auto& level : decoder_) {
      x = level->forward(x, skips.back());
      skips.pop_back();
    }
    return head_->forward(x);
  }

 private:
  void check(const at::Tensor& images) const {
    if (images.dim() != D + 2 || images.size(1) != in_channels_) {
      throw Error(ErrorKind::kData,
                  c10::str(name_, " takes samples of ", in_channels_, " channels and ", D,
                           " dimensions, the data brings ", images.sizes().slice(1)),
                  "model.args.in_channels", "set in_channels to the data's");
    }
    const at::IntArrayRef sizes = images.sizes().slice(2);
    const int64_t unit = int64_t{1} << encoder_.size();
    int64_t values = 1;  // a channel, at the bottleneck
    for (const int64_t size : sizes) {
      values *= size / unit;
      if (size > 0 && size % unit == 0) continue;
      throw Error(ErrorKind::kData,
                  c10::str(name_, " halves a sample ", encoder_.size(), " times: each size must be a multiple of ",
                           unit, ", the data brings ", sizes),
                  "model.args.levels", "crop or pad the samples, or use fewer levels");
    }
    if (norm_ == Norm::kBatch || values > 1) return;
    throw Error(ErrorKind::kData,
                c10::str(name_, " halves samples of ", sizes, " to one value a channel, which instance normalisation ",
                         "would make zero"),
                "model.args.levels", "use fewer levels, larger samples or norm: batch");
  }

  std::string name_;
  int64_t in_channels_;
  Norm norm_;
  std::vector<std::shared_ptr<DoubleConv<D>>> encoder_;  // the largest first
  std::shared_ptr<DoubleConv<D>> bottleneck_;
  std::vector<std::shared_ptr<Up<D>>> decoder_;  // the smallest first
  typename Layers<D>::Conv head_{nullptr};
};

}  // namespace

std::shared_ptr<Model> make_unet2d(const NamedArgs& args) {
  return std::make_shared<UNet<2>>(args);
}

std::shared_ptr<Model> make_unet3d(const NamedArgs& args) {
  return std::make_shared<UNet<3>>(args);
}

}  // namespace gputrain

// ConvMixer (Trockman & Kolter, "Patches Are All You Need?", 2022) as a gputrain plug-in: patches, then blocks that mix
// places (a depthwise convolution with a skip connection) and channels (a 1x1 convolution).
#include <ATen/ATen.h>
#include <gputrain/plugin.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

namespace nn = torch::nn;

namespace {

// A convolution, GELU and BatchNorm; keeps height and width when `kernel` is odd and `stride` 1.
struct Stage : nn::Module {
  Stage(int64_t in, int64_t out, int64_t kernel, int64_t stride, int64_t groups)
      : conv(nn::Conv2dOptions(in, out, kernel).stride(stride).padding(stride == 1 ? kernel / 2 : 0).groups(groups)),
        norm(out) {
    register_module("conv", conv);
    register_module("norm", norm);
  }
  at::Tensor forward(const at::Tensor& x) { return norm->forward(at::gelu(conv->forward(x))); }

  nn::Conv2d conv;
  nn::BatchNorm2d norm;
};

class ConvMixer : public gputrain::PluginModel {
 public:
  // Arguments: in_channels, num_classes, width, depth, kernel (odd), patch.
  explicit ConvMixer(const gputrain::ModelArgs& args) {
    const int64_t width = args.integer("width", 64), kernel = args.integer("kernel", 5),
                  patch = args.integer("patch", 4);
    if (kernel % 2 == 0) throw std::invalid_argument("kernel must be odd, got " + std::to_string(kernel));
    patches_ = add("patches", args.integer("in_channels", 3), width, patch, patch, 1);
    for (int64_t i = 0; i < args.integer("depth", 4); ++i) {
      const std::string block = "block" + std::to_string(i);
      places_.push_back(add(block + "_places", width, width, kernel, 1, width));
      channels_.push_back(add(block + "_channels", width, width, 1, 1, 1));
    }
    head_ = register_module("head", nn::Linear(width, args.integer("num_classes")));
  }

  // Images [n, in_channels, height, width] to logits [n, num_classes].
  at::Tensor forward(const at::Tensor& images) override {
    at::Tensor x = patches_->forward(images);
    for (size_t i = 0; i < places_.size(); ++i) x = channels_[i]->forward(x + places_[i]->forward(x));
    return head_->forward(x.mean({2, 3}));
  }

 private:
  std::shared_ptr<Stage> add(const std::string& name, int64_t in, int64_t out, int64_t kernel, int64_t stride,
                             int64_t groups) {
    return register_module(name, std::make_shared<Stage>(in, out, kernel, stride, groups));
  }

  std::shared_ptr<Stage> patches_;
  std::vector<std::shared_ptr<Stage>> places_, channels_;
  nn::Linear head_{nullptr};
};

}  // namespace

GPUTRAIN_MODEL(ConvMixer)

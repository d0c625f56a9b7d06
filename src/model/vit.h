#pragma once
// torchvision's VisionTransformer (https://arxiv.org/abs/2010.11929): same names, initialisation and results as
// torchvision.models.VisionTransformer(image_size, patch_size=16, ...).
#include <memory>
#include <vector>

#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include "model/args.h"
#include "model/model.h"

namespace gputrain {

struct VitLayout {
  int64_t patch, layers, heads, width, mlp_width;
};
constexpr VitLayout kVitB16{.patch = 16, .layers = 12, .heads = 12, .width = 768, .mlp_width = 3072};
constexpr VitLayout kVitS16{.patch = 16, .layers = 12, .heads = 6, .width = 384, .mlp_width = 1536};

class VitEncoder;

class VisionTransformer : public Model {
 public:
  VisionTransformer(const VitLayout& layout, const NamedArgs& args);  // image_size, num_classes, dropout
  // Images [n, 3, image_size, image_size] to logits [n, num_classes]; Error(kData) for images of another size.
  at::Tensor forward(const at::Tensor& images) override;

 private:
  at::Tensor patches_of(const at::Tensor& images);

  int64_t image_size_;
  at::Tensor class_token_;  // [1, 1, width]
  torch::nn::Conv2d conv_proj_{nullptr};
  std::shared_ptr<VitEncoder> encoder_;
  torch::nn::Linear head_{nullptr};
};

}  // namespace gputrain

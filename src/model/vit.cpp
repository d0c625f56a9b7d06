#include "model/vit.h"

#include <cmath>

#include <ATen/ops/cat.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <torch/nn/init.h>
#include <torch/nn/modules/normalization.h>

#include "model/layers.h"
#include "util/error.h"

namespace gputrain {
namespace {

torch::nn::LayerNorm layer_norm(int64_t width) {
  return torch::nn::LayerNorm(torch::nn::LayerNormOptions({width}).eps(1e-6));
}

// nn.init.trunc_normal_ with mean 0, cut at -2 and 2; LibTorch has none.
void truncated_normal(at::Tensor& tensor, double std) {
  const at::NoGradGuard no_grad;
  const double edge = std::erf(2 / std / std::sqrt(2.0));  // twice the probability of [0, 2]
  tensor.uniform_(-edge, edge).erfinv_().mul_(std * std::sqrt(2.0)).clamp_(-2, 2);
}

// nn.MultiheadAttention(batch_first=True) of one input with itself. Like Python's it works on [sequence, n, width].
class SelfAttention : public torch::nn::Module {
 public:
  SelfAttention(int64_t width, int64_t heads) : heads_(heads) {
    in_weight_ = register_parameter("in_proj_weight", at::empty({3 * width, width}));
    in_bias_ = register_parameter("in_proj_bias", at::zeros({3 * width}));
    out_ = register_module("out_proj", torch::nn::Linear(width, width));
    torch::nn::init::xavier_uniform_(in_weight_);
    torch::nn::init::zeros_(out_->bias);
  }

  // [n, sequence, width] to the same.
  at::Tensor forward(const at::Tensor& inputs) {
    const at::Tensor x = inputs.transpose(0, 1);
    const int64_t length = x.size(0), n = x.size(1), width = x.size(2);
    const at::Tensor projected = at::linear(x, in_weight_, in_bias_)
                                     .view({length, n, 3, width})
                                     .unsqueeze(0)
                                     .transpose(0, -2)
                                     .squeeze(-2)
                                     .contiguous();
    const auto per_head = [&](int64_t i) {
      return projected[i]
          .view({length, n * heads_, width / heads_})
          .transpose(0, 1)
          .view({n, heads_, length, width / heads_});
    };
    const at::Tensor mixed = at::scaled_dot_product_attention(per_head(0), per_head(1), per_head(2))
                                 .permute({2, 0, 1, 3})
                                 .contiguous()
                                 .view({length * n, width});
    return affine(out_, mixed).view({length, n, width}).transpose(0, 1);
  }

 private:
  int64_t heads_;
  at::Tensor in_weight_, in_bias_;  // query, key and value, one above the other
  torch::nn::Linear out_{nullptr};
};

// torchvision's MLPBlock: children "0" and "3", between them GELU and dropout.
class MlpBlock : public torch::nn::Module {
 public:
  MlpBlock(int64_t width, int64_t hidden, double dropout) : dropout_(dropout) {
    first_ = register_module("0", torch::nn::Linear(width, hidden));
    second_ = register_module("3", torch::nn::Linear(hidden, width));
    for (const auto& layer : {first_, second_}) {
      torch::nn::init::xavier_uniform_(layer->weight);
      torch::nn::init::normal_(layer->bias, 0, 1e-6);
    }
  }
  at::Tensor forward(const at::Tensor& inputs) {
    const at::Tensor hidden = at::dropout(at::gelu(affine(first_, inputs)), dropout_, is_training());
    return at::dropout(affine(second_, hidden), dropout_, is_training());
  }

 private:
  double dropout_;
  torch::nn::Linear first_{nullptr}, second_{nullptr};
};

class EncoderBlock : public torch::nn::Module {
 public:
  EncoderBlock(const VitLayout& layout, double dropout) : dropout_(dropout) {
    ln_1_ = register_module("ln_1", layer_norm(layout.width));
    attention_ = register_module("self_attention", std::make_shared<SelfAttention>(layout.width, layout.heads));
    ln_2_ = register_module("ln_2", layer_norm(layout.width));
    mlp_ = register_module("mlp", std::make_shared<MlpBlock>(layout.width, layout.mlp_width, dropout));
  }
  at::Tensor forward(const at::Tensor& inputs) {
    const at::Tensor x = at::dropout(attention_->forward(ln_1_->forward(inputs)), dropout_, is_training()) + inputs;
    return x + mlp_->forward(ln_2_->forward(x));
  }

 private:
  double dropout_;
  torch::nn::LayerNorm ln_1_{nullptr}, ln_2_{nullptr};
  std::shared_ptr<SelfAttention> attention_;
  std::shared_ptr<MlpBlock> mlp_;
};

// A name on the way to the blocks ("layers.encoder_layer_0"), a sequence in Python.
class EncoderBlocks : public torch::nn::Module {
 public:
  EncoderBlocks(const VitLayout& layout, double dropout) {
    for (int64_t i = 0; i < layout.layers; ++i)
      blocks_.push_back(
          register_module("encoder_layer_" + std::to_string(i), std::make_shared<EncoderBlock>(layout, dropout)));
  }
  at::Tensor forward(at::Tensor x) {
    for (const auto& block : blocks_) x = block->forward(x);
    return x;
  }

 private:
  std::vector<std::shared_ptr<EncoderBlock>> blocks_;
};

}  // namespace

class VitEncoder : public torch::nn::Module {
 public:
  VitEncoder(const VitLayout& layout, int64_t length, double dropout) : dropout_(dropout) {
    position_ = register_parameter("pos_embedding", at::empty({1, length, layout.width}).normal_(0, 0.02));
    blocks_ = register_module("layers", std::make_shared<EncoderBlocks>(layout, dropout));
    ln_ = register_module("ln", layer_norm(layout.width));
  }
  at::Tensor forward(const at::Tensor& tokens) {
    return ln_->forward(blocks_->forward(at::dropout(tokens + position_, dropout_, is_training())));
  }

 private:
  double dropout_;
  at::Tensor position_;  // [1, tokens, width]
  std::shared_ptr<EncoderBlocks> blocks_;
  torch::nn::LayerNorm ln_{nullptr};
};

VisionTransformer::VisionTransformer(const VitLayout& layout, const NamedArgs& args)
    : image_size_(args.integer("image_size")) {
  GP_CHECK(image_size_ % layout.patch == 0, "the spec takes whole patches only");
  const int64_t side = image_size_ / layout.patch;
  conv_proj_ = register_module(
      "conv_proj", torch::nn::Conv2d(torch::nn::Conv2dOptions(3, layout.width, layout.patch).stride(layout.patch)));
  class_token_ = register_parameter("class_token", at::zeros({1, 1, layout.width}));
  encoder_ = register_module("encoder", std::make_shared<VitEncoder>(layout, side * side + 1, args.number("dropout")));
  auto heads = register_module("heads", std::make_shared<torch::nn::Module>());
  head_ = heads->register_module("head", torch::nn::Linear(layout.width, args.integer("num_classes")));
  // After all default initialisations, as torchvision's constructor does.
  truncated_normal(conv_proj_->weight, std::sqrt(1.0 / static_cast<double>(3 * layout.patch * layout.patch)));
  for (const at::Tensor& tensor : {conv_proj_->bias, head_->weight, head_->bias}) torch::nn::init::zeros_(tensor);
}

at::Tensor VisionTransformer::patches_of(const at::Tensor& images) {
  if (images.dim() != 4 || images.size(1) != 3 || images.size(2) != image_size_ || images.size(3) != image_size_) {
    throw Error(ErrorKind::kData,
                "the model takes images of 3 x " + std::to_string(image_size_) + " x " + std::to_string(image_size_) +
                    ", the data brings " + c10::str(images.sizes().slice(1)),
                "model.args.image_size", "set image_size to the data's, or crop the images");
  }
  return conv_proj_->forward(images).flatten(2).permute({0, 2, 1});
}

at::Tensor VisionTransformer::forward(const at::Tensor& images) {
  const at::Tensor patches = patches_of(images);
  const at::Tensor tokens = at::cat({class_token_.expand({patches.size(0), -1, -1}), patches}, 1);
  return affine(head_, encoder_->forward(tokens).select(1, 0));
}

}  // namespace gputrain

#include "model/gpt.h"

#include <cmath>
#include <utility>
#include <vector>

#include <ATen/ops/addmm.h>
#include <ATen/ops/aminmax.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/logical_or.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <torch/nn/init.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/normalization.h>

#include "util/error.h"

namespace gputrain {
namespace {

constexpr double kInitialStd = 0.02;

struct NamedSize {
  const char* name;
  GptLayout layout;
};
constexpr NamedSize kSizes[] = {{"gpt2", {.layers = 12, .heads = 12, .width = 768}},
                                {"gpt2-medium", {.layers = 24, .heads = 16, .width = 1024}},
                                {"gpt2-large", {.layers = 36, .heads = 20, .width = 1280}},
                                {"gpt2-xl", {.layers = 48, .heads = 25, .width = 1600}}};

const GptLayout* named_layout(const std::string& size) {
  for (const NamedSize& known : kSizes) {
    if (size == known.name) return &known.layout;
  }
  return nullptr;
}

// A number that a named size decides, or that a custom one needs.
int64_t layout_number(const NamedArgs& args, const std::string& key, const int64_t* of_size) {
  const std::string size = args.text("size");
  if (of_size == nullptr) {
    if (!args.is_auto(key)) return args.integer(key);
    throw Error(ErrorKind::kSpec, "a gpt of custom size needs the argument " + key, "model.args." + key,
                "give layers, heads and width, or a size such as gpt2");
  }
  if (args.is_auto(key) || args.integer(key) == *of_size) return *of_size;
  throw Error(ErrorKind::kSpec,
              size + " has " + key + " " + std::to_string(*of_size) + ", not " + std::to_string(args.integer(key)),
              "model.args." + key, "leave " + key + " out, or set model.args.size to custom");
}

torch::nn::LayerNorm layer_norm(int64_t width) {
  return torch::nn::LayerNorm(torch::nn::LayerNormOptions({width}).eps(1e-5));
}

// A linear layer whose weight is stored [in, out], as GPT-2's first code had it.
class Conv1D : public torch::nn::Module {
 public:
  Conv1D(int64_t in, int64_t out) {
    weight = register_parameter("weight", at::empty({in, out}));
    torch::nn::init::normal_(weight, 0, kInitialStd);
    bias_ = register_parameter("bias", at::zeros({out}));
  }
  at::Tensor forward(const at::Tensor& x) const {
    return at::addmm(bias_, x.reshape({-1, weight.size(0)}), weight).view({x.size(0), x.size(1), weight.size(1)});
  }

  at::Tensor weight;

 private:
  at::Tensor bias_;
};

// The two layers of a branch that is added to the residual stream.
struct Branch {
  std::shared_ptr<Conv1D> first, projection;
};

// Hugging Face's initialisation, after all constructors have drawn once: each layer again, then, when it comes to the
// module that holds them, the projection once more, narrower by the number of branches that add to one stream.
void redraw(const Branch& branch, int64_t layers) {
  torch::nn::init::normal_(branch.first->weight, 0, kInitialStd);
  torch::nn::init::normal_(branch.projection->weight, 0, kInitialStd);
  torch::nn::init::normal_(branch.projection->weight, 0, kInitialStd / std::sqrt(2.0 * static_cast<double>(layers)));
}

class CausalSelfAttention : public torch::nn::Module {
 public:
  CausalSelfAttention(const GptLayout& layout, double dropout) : heads_(layout.heads), dropout_(dropout) {
    branch_.first = register_module("c_attn", std::make_shared<Conv1D>(layout.width, 3 * layout.width));
    branch_.projection = register_module("c_proj", std::make_shared<Conv1D>(layout.width, layout.width));
  }

  // [n, length, width] to the same.
  at::Tensor forward(const at::Tensor& x) {
    const std::vector<at::Tensor> parts = branch_.first->forward(x).split(x.size(2), 2);
    const auto per_head = [&](const at::Tensor& part) {
      return part.view({x.size(0), x.size(1), heads_, x.size(2) / heads_}).transpose(1, 2);
    };
    const at::Tensor mixed =
        at::scaled_dot_product_attention(per_head(parts[0]), per_head(parts[1]), per_head(parts[2]), {},
                                         is_training() ? dropout_ : 0, /*is_causal=*/true)
            .transpose(1, 2)
            .reshape(x.sizes());
    return at::dropout(branch_.projection->forward(mixed), dropout_, is_training());
  }

  const Branch& branch() const { return branch_; }

 private:
  int64_t heads_;
  double dropout_;
  Branch branch_;
};

class GptMlp : public torch::nn::Module {
 public:
  GptMlp(int64_t width, double dropout) : dropout_(dropout) {
    branch_.first = register_module("c_fc", std::make_shared<Conv1D>(width, 4 * width));
    branch_.projection = register_module("c_proj", std::make_shared<Conv1D>(4 * width, width));
  }
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor hidden = at::gelu(branch_.first->forward(x), "tanh");
    return at::dropout(branch_.projection->forward(hidden), dropout_, is_training());
  }

  const Branch& branch() const { return branch_; }

 private:
  double dropout_;
  Branch branch_;
};

class GptBlock : public torch::nn::Module {
 public:
  GptBlock(const GptLayout& layout, double dropout) {
    ln_1_ = register_module("ln_1", layer_norm(layout.width));
    attention_ = register_module("attn", std::make_shared<CausalSelfAttention>(layout, dropout));
    ln_2_ = register_module("ln_2", layer_norm(layout.width));
    mlp_ = register_module("mlp", std::make_shared<GptMlp>(layout.width, dropout));
  }
  at::Tensor forward(const at::Tensor& inputs) {
    const at::Tensor x = inputs + attention_->forward(ln_1_->forward(inputs));
    return x + mlp_->forward(ln_2_->forward(x));
  }
  void redraw_weights(int64_t layers) {
    redraw(attention_->branch(), layers);
    redraw(mlp_->branch(), layers);
  }

 private:
  torch::nn::LayerNorm ln_1_{nullptr}, ln_2_{nullptr};
  std::shared_ptr<CausalSelfAttention> attention_;
  std::shared_ptr<GptMlp> mlp_;
};

}  // namespace

class GptTransformer : public torch::nn::Module {
 public:
  GptTransformer(const GptLayout& layout, const NamedArgs& args) : dropout_(args.number("dropout")) {
    tokens_ = register_module("wte", torch::nn::Embedding(args.integer("vocab_size"), layout.width));
    places_ = register_module("wpe", torch::nn::Embedding(args.integer("context"), layout.width));
    auto sequence = register_module("h", std::make_shared<torch::nn::Module>());
    for (int64_t i = 0; i < layout.layers; ++i) {
      auto block = std::make_shared<GptBlock>(layout, dropout_);
      blocks_.push_back(sequence->register_module(std::to_string(i), std::move(block)));
    }
    ln_f_ = register_module("ln_f", layer_norm(layout.width));
    for (const auto& table : {tokens_, places_}) torch::nn::init::normal_(table->weight, 0, kInitialStd);
    for (const auto& block : blocks_) block->redraw_weights(layout.layers);
  }

  // Tokens [n, length] to [n, length, width].
  at::Tensor forward(const at::Tensor& tokens) {
    const at::Tensor places = places_->weight.narrow(0, 0, tokens.size(1));
    at::Tensor x = at::dropout(at::embedding(tokens_->weight, tokens) + places, dropout_, is_training());
    for (const auto& block : blocks_) x = block->forward(x);
    return ln_f_->forward(x);
  }

  const at::Tensor& token_weight() const { return tokens_->weight; }

 private:
  double dropout_;
  torch::nn::Embedding tokens_{nullptr}, places_{nullptr};
  std::vector<std::shared_ptr<GptBlock>> blocks_;
  torch::nn::LayerNorm ln_f_{nullptr};
};

GptLayout gpt_layout(const NamedArgs& args) {
  const std::string size = args.text("size");
  const GptLayout* named = named_layout(size);
  if (named == nullptr && size != "custom") throw Error(ErrorKind::kSpec, "gpt has no size " + size, "model.args.size");
  const GptLayout layout{.layers = layout_number(args, "layers", named ? &named->layers : nullptr),
                         .heads = layout_number(args, "heads", named ? &named->heads : nullptr),
                         .width = layout_number(args, "width", named ? &named->width : nullptr)};
  if (layout.heads > 0 && layout.width % layout.heads == 0) return layout;
  throw Error(ErrorKind::kSpec,
              "a width of " + std::to_string(layout.width) + " does not split into " + std::to_string(layout.heads) +
                  " attention heads",
              "model.args.heads", "let heads divide width");
}

Gpt::Gpt(const NamedArgs& args) : context_(args.integer("context")), vocab_size_(args.integer("vocab_size")) {
  transformer_ = register_module("transformer", std::make_shared<GptTransformer>(gpt_layout(args), args));
  // Drawn by Hugging Face too, but last, and replaced by the embedding's: no draw here changes nothing that is kept.
  auto head = register_module("lm_head", std::make_shared<torch::nn::Module>());
  head->register_parameter("weight", transformer_->token_weight());
}

void Gpt::check(const at::Tensor& tokens) const {
  const at::ScalarType type = tokens.scalar_type();
  if (tokens.dim() != 2 || tokens.size(1) < 1 || (type != at::kLong && type != at::kInt)) {
    throw Error(
        ErrorKind::kData,
        c10::str("gpt takes rows of int64 tokens, the data brings samples of ", tokens.sizes().slice(1), " of ", type),
        "data", "use data of format tokens");
  }
  if (tokens.size(1) > context_) {
    throw Error(ErrorKind::kData,
                c10::str("gpt sees at most ", context_, " tokens at once, the data brings ", tokens.size(1)),
                "model.args.context", "set context to the length of the data's windows, or shorten them");
  }
  if (!tokens.is_cpu() || tokens.numel() == 0) return;
  const auto [least, most] = at::aminmax(tokens);
  if (least.item<int64_t>() >= 0 && most.item<int64_t>() < vocab_size_) return;
  const at::Tensor place = at::logical_or(tokens < 0, tokens >= vocab_size_).nonzero()[0];
  const int64_t row = place[0].item<int64_t>(), column = place[1].item<int64_t>();
  throw Error(ErrorKind::kData,
              c10::str("token ", tokens[row][column].item<int64_t>(), " (place ", column + 1, " of sample ", row + 1,
                       " of a batch) is not in a vocabulary of ", vocab_size_),
              "model.args.vocab_size",
              "set vocab_size above the largest token, or look for the data's dtype and offset");
}

at::Tensor Gpt::forward(const at::Tensor& tokens) {
  check(tokens);
  return at::linear(transformer_->forward(tokens), transformer_->token_weight());
}

}  // namespace gputrain

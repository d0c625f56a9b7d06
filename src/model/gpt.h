#pragma once
// GPT-2 (Radford et al. 2019): same names, shapes, initialisation and results as Hugging Face's GPT2LMHeadModel
// (compared with transformers 4.57), its token embedding shared with the output layer.
#include <memory>
#include <string>
#include <vector>

#include "model/args.h"
#include "model/model.h"

namespace gputrain {

struct GptLayout {
  int64_t layers, heads, width;
  bool operator==(const GptLayout&) const = default;
};

// What the arguments size, layers, heads and width ask for. Error(kSpec) where they contradict each other: a named size
// with other numbers, a custom one with numbers missing, heads that do not divide the width.
GptLayout gpt_layout(const NamedArgs& args);

class GptTransformer;

class Gpt : public Model {
 public:
  explicit Gpt(const NamedArgs& args);  // size, layers, heads, width, context, vocab_size, dropout
  // Tokens [n, length] of int64 or int32 to logits [n, length, vocab_size]; the logits at a place depend on the tokens
  // up to it. Error(kData) for more tokens than `context`, other types and shapes and, on the CPU, for a token outside
  // the vocabulary. (On a GPU looking for one would stop the stream in every pass.)
  at::Tensor forward(const at::Tensor& tokens) override;
  std::string base_prefix() const override { return "transformer."; }
  std::vector<std::string> surplus_patterns() const override {
    return {"transformer.h.*.attn.bias", "transformer.h.*.attn.masked_bias"};
  }

 private:
  void check(const at::Tensor& tokens) const;

  int64_t context_, vocab_size_;
  std::shared_ptr<GptTransformer> transformer_;
};

}  // namespace gputrain

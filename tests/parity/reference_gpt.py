"""The Python twin of src/model/gpt.cpp: Hugging Face's GPT2LMHeadModel (names, order of random draws, results), for machines
without transformers. Where transformers is installed, running this file compares the two:

    reference_gpt.py            # small sizes
    reference_gpt.py gpt2       # 124 million parameters
"""

import math
import sys

import torch
import torch.nn.functional as F
from torch import nn

SIZES = {"gpt2": (12, 12, 768), "gpt2-medium": (24, 16, 1024), "gpt2-large": (36, 20, 1280), "gpt2-xl": (48, 25, 1600)}


class Conv1D(nn.Module):
    """A linear layer whose weight is [in, out]."""

    def __init__(self, width_in, width_out):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width_in, width_out))
        self.bias = nn.Parameter(torch.zeros(width_out))
        nn.init.normal_(self.weight, std=0.02)

    def forward(self, x):
        return torch.addmm(self.bias, x.reshape(-1, x.size(-1)), self.weight).view(*x.shape[:-1], -1)


class Attention(nn.Module):
    def __init__(self, heads, width, dropout):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.c_attn = Conv1D(width, 3 * width)
        self.c_proj = Conv1D(width, width)

    def forward(self, x):
        n, length, width = x.shape
        query, key, value = (part.view(n, length, self.heads, -1).transpose(1, 2) for part in self.c_attn(x).split(width, dim=2))
        mixed = F.scaled_dot_product_attention(query, key, value, dropout_p=self.dropout if self.training else 0.0, is_causal=True)
        return F.dropout(self.c_proj(mixed.transpose(1, 2).reshape(n, length, width)), self.dropout, self.training)


class MLP(nn.Module):
    def __init__(self, width, dropout):
        super().__init__()
        self.dropout = dropout
        self.c_fc = Conv1D(width, 4 * width)
        self.c_proj = Conv1D(4 * width, width)

    def forward(self, x):
        return F.dropout(self.c_proj(F.gelu(self.c_fc(x), approximate="tanh")), self.dropout, self.training)


class Block(nn.Module):
    def __init__(self, heads, width, dropout):
        super().__init__()
        self.ln_1 = nn.LayerNorm(width)
        self.attn = Attention(heads, width, dropout)
        self.ln_2 = nn.LayerNorm(width)
        self.mlp = MLP(width, dropout)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Transformer(nn.Module):
    def __init__(self, layers, heads, width, context, vocab_size, dropout):
        super().__init__()
        self.dropout = dropout
        self.wte = nn.Embedding(vocab_size, width)
        self.wpe = nn.Embedding(context, width)
        self.h = nn.ModuleList(Block(heads, width, dropout) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)
        self.apply(lambda module: self._redraw(module, layers))

    @staticmethod
    def _redraw(module, layers):
        """As Hugging Face: children first, then the module that holds them draws its projection once more."""
        if isinstance(module, (Conv1D, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)
        elif isinstance(module, (Attention, MLP)):
            nn.init.normal_(module.c_proj.weight, std=0.02 / math.sqrt(2 * layers))

    def forward(self, tokens):
        x = F.dropout(self.wte(tokens) + self.wpe.weight[: tokens.size(1)], self.dropout, self.training)
        for block in self.h:
            x = block(x)
        return self.ln_f(x)


class GPT(nn.Module):
    def __init__(self, size="gpt2", layers="auto", heads="auto", width="auto", context=1024, vocab_size=50257, dropout=0.0):
        super().__init__()
        layers, heads, width = SIZES.get(size, (layers, heads, width))
        self.transformer = Transformer(layers, heads, width, context, vocab_size, dropout)
        self.lm_head = nn.Linear(width, vocab_size, bias=False)
        self.lm_head.weight = self.transformer.wte.weight

    def forward(self, tokens):
        return self.lm_head(self.transformer(tokens))


def difference_from_hugging_face(length=16, **args):
    """max|a - b| / max|b| of the logits; asserts equal names and initial weights."""
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(5)
    ours = GPT(**args)
    layers, heads, width = SIZES.get(args["size"], (args.get("layers"), args.get("heads"), args.get("width")))
    torch.manual_seed(5)
    theirs = GPT2LMHeadModel(GPT2Config(n_layer=layers, n_head=heads, n_embd=width, n_positions=args["context"], vocab_size=args["vocab_size"],
                                        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0))
    a, b = dict(ours.named_parameters()), dict(theirs.named_parameters())
    assert list(a) == list(b) and all(torch.equal(a[name], b[name]) for name in a), "initial weights differ"
    tokens = torch.randint(args["vocab_size"], (2, length))
    with torch.no_grad():
        mine, other = ours.double().eval()(tokens), theirs.double().eval()(tokens).logits
    return ((mine - other).abs().max() / other.abs().max()).item()


if __name__ == "__main__":
    if sys.argv[1:]:
        print(difference_from_hugging_face(size=sys.argv[1], context=1024, vocab_size=50257))
    else:
        for depth, heads in ((1, 1), (2, 2), (3, 4)):
            print(difference_from_hugging_face(size="custom", layers=depth, heads=heads, width=8 * heads, context=16, vocab_size=50))

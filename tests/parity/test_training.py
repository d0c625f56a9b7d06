"""Parity with Python PyTorch: the part that runs at every commit. test_slow_training.py has the rest."""
import math

import pytest
import torch
from safetensors.torch import load_file

from parity.harness import ADAMW, Row, rows, run_and_compare, run_both, twin
from support import gp


@rows(Row("mlp"), Row("mlp", world=2, accumulation=3), Row("mlp", "fp64", 2), Row("mlp", "fp64", 3, 2), Row("mlp", "bf16", 2),
      Row("small_cnn", "fp32", 2, 2), Row("small_cnn", "fp64", 1, 3, "sgd"), Row("resnet18", world=2, steps=5), Row("resnet18", "fp64", 1, 2, "lamb", 3),
      Row("vit_s_16", "fp32", 2, 2, steps=3), Row("gpt", "fp32", 2, 2), Row("gpt", "bf16"), Row("padded_gpt", "fp64", 2, 3, "lion"),
      Row("unet2d", "fp32", 2, 2, "adam"), Row("unet3d", "fp64"), Row("regression", "fp32", 2, 2), Row("regression", "fp64", loss={"distance": "smooth_l1"}))
def test_same_losses_gradients_and_parameters(tmp_path, row):
    run_and_compare(tmp_path, row)


@rows(Row("mlp", "fp64", 2, loss={"label_smoothing": 0.1}, data={"mixup": 0.3}, peer={"mixup": 0.3}),
      Row("mlp", "fp64", 2, 2, rules={"decay_norm_and_bias": False, "lr_scales": {"fc3.*": 2, "*.bias": 0.5}},
          peer={"decay_norm_and_bias": False, "lr_scales": {"fc3.*": 2, "*.bias": 0.5}}),
      Row("mlp", "fp64", 2, train={"ema_decay": 0.9, "clip_grad_value": 0.01, "clip_grad_norm": 0.05}, peer={"ema": 0.9, "clip_value": 0.01, "clip": 0.05}),
      Row("mlp", "fp64", 2, model={"freeze": ["fc1.*"]}, peer={"freeze": ["fc1.*"]}),
      Row("small_cnn", "fp32", 2, 2, train={"channels_last": True}, peer={"channels_last": True}))
def test_options(tmp_path, row):
    run_and_compare(tmp_path, row)


def test_clipping_and_schedule(tmp_path):
    """Warm-up of 4 updates from 0.1, then cosine to 0 over the rest: the factors are written out here, not taken from the program."""
    factors = [0.1 + 0.9 * u / 4 if u < 4 else 0.5 * (1 + math.cos(math.pi * (u - 4) / 6)) for u in range(10)]
    row = Row("mlp", "fp64", 2, train={"clip_grad_norm": 0.05}, schedule={"name": "cosine", "warmup": "4 steps", "warmup_start": 0.1},
              peer={"clip": 0.05, "factors": factors})
    python, _ = run_and_compare(tmp_path, row)
    records = gp.events(tmp_path / "out", "step")
    assert [record["lr"] for record in records] == pytest.approx([ADAMW["lr"] * factor for factor in factors], rel=1e-12)
    assert [record["grad_norm"] for record in records] == pytest.approx(python["norms"], rel=1e-9)
    assert min(python["norms"]) > 0.05, "every step was clipped"


def test_python_opens_the_checkpoint_and_computes_the_same_logits(tmp_path):
    """Initial weights equal the twin's bit for bit, and the trained ones give Python's logits."""
    python, ours = run_and_compare(tmp_path, Row("small_cnn"))
    trained, expected = twin("small_cnn"), twin("small_cnn")
    trained.load_state_dict(ours)
    expected.load_state_dict(python["state"])
    inputs = torch.randn(5, 1, 28, 28, generator=torch.Generator().manual_seed(0))
    assert torch.allclose(trained.eval()(inputs), expected.eval()(inputs), rtol=1e-5, atol=1e-6)


def test_the_optimizer_state_is_pythons_too(tmp_path):
    python = run_both(tmp_path, Row("mlp", "fp64", steps=4))
    state = load_file(tmp_path / "out/checkpoints/step-00000004/optimizer.safetensors")
    assert sorted(state) == sorted(f"{name}/{item}" for name in python["state"] for item in ("exp_avg", "exp_avg_sq", "step"))
    assert all(value.item() == 4 for name, value in state.items() if name.endswith("/step"))

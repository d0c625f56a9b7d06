"""Parity with Python PyTorch, pairwise over model, optimizer, precision, ranks and accumulation: what test_training.py has no time for."""
import json

import pytest
import torch
from safetensors.torch import save_file

from parity.harness import RECIPES, Row, rows, run_and_compare, run_both, twin
from parity.reference_models import make_model
from support import gp


@rows(Row("mlp", "fp32", 1, 3), Row("mlp", "fp32", 2), Row("mlp", "fp64", 1, 3), Row("mlp", "fp64", 2, 3), Row("mlp", "fp32", 3), Row("mlp", "bf16"),
      Row("mlp", "tf32", 2, 2), Row("mlp", "fp16", steps=4), Row("mlp", "fp16", 2, 2, "sgd", 4),
      Row("mlp", "fp64", 2, 1, "adam"), Row("mlp", "fp64", 2, 2, "lion"), Row("mlp", "fp64", 2, 1, "lamb"), Row("mlp", "fp32", 1, 2, "sgd"),
      Row("mlp", "bf16", 2, 3, "lion"), Row("small_cnn"), Row("small_cnn", "fp64", 2), Row("small_cnn", "fp64", 2, 3, "adam"),
      Row("small_cnn", "bf16"), Row("small_cnn", "bf16", 2, 2, "lamb"), Row("small_cnn", "fp32", 3, 2, "lion"))
def test_small_models(tmp_path, row):
    run_and_compare(tmp_path, row)


@rows(Row("resnet18", steps=4), Row("resnet18", "fp64", 2, 1, "sgd", 4), Row("resnet18", "bf16", 2, 2, "lion", 3),
      Row("resnet34", "fp32", 2, 2, steps=3), Row("resnet34", "bf16", 1, 1, "sgd", 3), Row("resnet50", "fp32", 1, 2, "lamb", 3), Row("resnet50", "fp64", 2, 1, steps=3),
      Row("resnet101", "fp32", 2, 1, "sgd", 2), Row("resnet101", "fp64", 1, 1, "adam", 2),
      Row("vit_s_16", "bf16", steps=3), Row("vit_s_16", "fp64", 1, 2, "lion", 3), Row("vit_s_16", "fp32", 2, 1, "sgd", 3), Row("vit_b_16", "fp32", 1, 2, steps=2))
def test_large_models(tmp_path, row):
    run_and_compare(tmp_path, row)


@rows(Row("gpt"), Row("gpt", "fp64", 2, 3, "adam"), Row("gpt", "bf16", 2, 2, "lamb"), Row("gpt", "fp64", 3, 1, "sgd"), Row("padded_gpt", "fp32", 2, 2),
      Row("padded_gpt", "bf16", 2, 1, "sgd"), Row("padded_gpt", "fp64", 1, 3, loss={"label_smoothing": 0.1}),
      Row("unet2d", "fp64", 1, 3), Row("unet2d", "bf16", 2, 1, "sgd"), Row("unet2d", "fp32", 1, 2, "lion", loss={"dice_weight": 0.0}),
      Row("unet2d_batch", "fp64", 2, 1, "lamb"), Row("unet2d_batch", "fp32", 1, 1, "sgd"), Row("unet3d", "fp32", 2, 2, "sgd"), Row("unet3d", "fp64", 1, 2, "lamb"), Row("unet2d", "bf16", 1, 2, "lamb"),
      Row("regression", "fp64", 2, 3, "lamb"), Row("regression", "bf16", 1, 2, "sgd", loss={"distance": "l1"}))
def test_other_tasks(tmp_path, row):
    run_and_compare(tmp_path, row)


@rows(Row("small_cnn", "fp32", 1, 2, data={"mixup": 0.8}, peer={"mixup": 0.8}), Row("small_cnn", "fp32", 2, 1, data={"cutmix": 1.0}, peer={"cutmix": 1.0}), Row("resnet18", "fp32", 1, 1, "sgd", 3, train={"channels_last": True}, peer={"channels_last": True}),
      Row("resnet18", "fp64", 2, 1, "sgd", 3, model={"freeze": ["layer1.*", "conv1.*", "bn1.*"]}, peer={"freeze": ["layer1.*", "conv1.*", "bn1.*"]}),
      Row("gpt", "fp32", 2, 2, rules={"decay_norm_and_bias": False}, train={"clip_grad_norm": 0.5, "ema_decay": 0.99},
          peer={"decay_norm_and_bias": False, "clip": 0.5, "ema": 0.99}),
      Row("unet2d", "fp32", 2, 1, "adamw", train={"channels_last": True, "clip_grad_value": 1e-3}, peer={"channels_last": True, "clip_value": 1e-3}))
def test_options(tmp_path, row):
    run_and_compare(tmp_path, row)


@pytest.mark.parametrize("recipe, tolerance", [("mlp", 1e-5), ("small_cnn", 1e-4)])
def test_twenty_step_loss_curves(tmp_path, recipe, tolerance):
    python = run_both(tmp_path, Row(recipe, "fp32", 2, steps=20, samples=RECIPES[recipe]["global_batch"] * 20))
    ours = [record["loss"] for record in gp.events(tmp_path / "out", "step")]
    assert ours == pytest.approx(python["losses"], rel=tolerance)


@pytest.mark.parametrize("world", [1, 2])
@pytest.mark.parametrize("recipe, traced", [("mlp", [2, 64]), ("resnet18", None), ("small_cnn", [2, 1, 28, 28])])
def test_a_torchscript_file_trains_as_its_python_module(tmp_path, recipe, traced, world):
    module = twin(recipe)
    scripted = torch.jit.trace(module, torch.zeros(traced)) if traced else torch.jit.script(module)
    scripted.save(str(tmp_path / "m.pt"))
    run_and_compare(tmp_path, Row(recipe, "fp32", world, 2, steps=4, model={"name": None, "args": None, "torchscript": f"{tmp_path}/m.pt"}))


def test_gpt2_124m_from_a_file_gives_pythons_loss(tmp_path):
    """Public names, without the prefix and with the mask buffers that Hugging Face's files have; forward only: the loss of the first step."""
    model = make_model("gpt", 3, {"size": "gpt2"})
    state = {name.removeprefix("transformer."): value.detach().contiguous() for name, value in model.named_parameters()}
    state.update({f"h.{layer}.attn.bias": torch.ones(1, 1, 4, 4) for layer in range(12)})
    save_file(state, tmp_path / "gpt2.safetensors")
    tokens = torch.randint(50257, (2 * 16 + 1,), generator=torch.Generator().manual_seed(1))
    (tmp_path / "tokens.bin").write_bytes(tokens.to(torch.uint16).numpy().tobytes())
    spec = gp.write_spec(tmp_path / "spec.yaml", json.dumps({
        "name": "gpt2", "output": f"{tmp_path}/out", "seed": 1, "task": "language_model", "launch": {"nproc_per_node": 1, "omp_threads": 2},
        "model": {"name": "gpt", "init": f"{tmp_path}/gpt2.safetensors"},
        "data": {"train": {"format": "tokens", "path": f"{tmp_path}/tokens.bin", "dtype": "uint16", "context": 16}},
        "train": {"max_steps": 1, "global_batch": 2}, "optimizer": {"name": "sgd", "lr": 1e-9}, "checkpoint": {"every": "never"}}))
    job = gp.launch(spec, timeout=200)
    assert job.code == 0, job.err
    with torch.no_grad():
        logits = model.eval()(tokens[:-1].view(2, 16))
        expected = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[1:]).item()
    (record,) = gp.events(tmp_path / "out", "step")
    print(f"\nloss {record['loss']}, Python's {expected}")
    assert record["loss"] == pytest.approx(expected, rel=1e-6)

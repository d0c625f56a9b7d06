"""The same job in Python PyTorch of the same wheel and in gputrain: losses, gradients of each step, parameters after 10 steps.

Both sides have the same ranks, cuts, micro-batches and threads, so the expected difference is 0; what is found is printed (pytest -s).
Tolerance: max|a-b| / max|b| of each tensor.
"""
import json
import math
import pathlib
import random
import socket
import struct
import subprocess
import sys
import time

import pytest
import torch
from safetensors.torch import load_file

from parity.reference_models import make_model
from support import gp

TOLERANCE = {("fp32", 1): 1e-6, ("fp32", 2): 1e-5, ("fp32", 3): 1e-5, ("fp64", 1): 1e-12, ("fp64", 2): 1e-12, ("fp64", 3): 1e-12,
             ("bf16", 1): 1e-2, ("bf16", 2): 1e-2}
STEPS = 10
MODELS = {
    "mlp": dict(args={"in_features": 64, "hidden": [32, 16], "num_classes": 10}, image=8, global_batch=24),
    "small_cnn": dict(args={"in_channels": 1, "num_classes": 10}, image=28, global_batch=16),
    "resnet18": dict(args={"in_channels": 3, "num_classes": 10}, shape=[3, 32, 32], global_batch=8),
    "vit_s_16": dict(args={"image_size": 32, "num_classes": 10, "dropout": 0.0}, shape=[3, 32, 32], global_batch=8),
}


def write_data(folder, model, samples):
    """(spec lines of the data set, the Python side's fields)."""
    recipe = MODELS[model]
    if "image" in recipe:
        images, labels = gp.write_idx(folder / "data", samples, recipe["image"])
        return (f"  train: {{format: idx, images: {images}, labels: {labels}}}\n  transforms: {{train: [to_tensor, {{normalize: {{mean: [0.25], std: [0.5]}}}}]}}\n",
                {"images": str(images), "labels": str(labels)})
    generator = torch.Generator().manual_seed(3)
    inputs, labels = folder / "inputs.bin", folder / "labels.bin"
    inputs.write_bytes(torch.randn(samples, *recipe["shape"], generator=generator).numpy().tobytes())
    labels.write_bytes(torch.randint(10, (samples,), generator=generator).numpy().tobytes())
    return (f"  train: {{format: raw, inputs: {{path: {inputs}, shape: {recipe['shape']}, dtype: float32}}, targets: {{path: {labels}, shape: [], dtype: int64}}}}\n",
            {"inputs": str(inputs), "shape": recipe["shape"], "labels": str(labels)})


def run_python(folder, job):
    for attempt in range(3):
        if start_python(folder, job):
            break
        print(f"the peer's ranks did not connect, attempt {attempt + 1}")
    else:
        pytest.fail("the peer's ranks did not connect in three attempts")
    return [torch.load(f"{job['out']}/rank-{rank}.pt", weights_only=True) for rank in range(job["world"])]


def start_python(folder, job):
    """True when the peer has run to its end; False when its ranks did not find each other (Gloo's first connection hangs or is refused now and
    then), which says nothing about what is compared."""
    for mark in folder.glob("connected-*"):
        mark.unlink()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        job["port"] = probe.getsockname()[1]
    (folder / "job.json").write_text(json.dumps(job))
    script = pathlib.Path(__file__).with_name("python_training.py")
    ranks = [subprocess.Popen([sys.executable, "-B", script, str(folder / "job.json"), str(rank)]) for rank in range(job["world"])]
    try:
        deadline = time.monotonic() + 60
        while not all((folder / f"connected-{rank}").exists() for rank in range(job["world"])):
            if time.monotonic() > deadline or any(rank.poll() for rank in ranks):
                return False
            time.sleep(0.05)
        for rank in ranks:
            assert rank.wait(300) == 0
        return True
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()


def run_both(folder, model, precision, world, accumulation=1, optimizer="{name: adamw, lr: 2e-3, weight_decay: 0.05}", peer_optimizer=None,
             clip=0.0, schedule="", factors=None, steps=STEPS, samples=None):
    recipe = MODELS[model]
    batch = recipe["global_batch"]
    micro_batch = math.ceil(math.ceil(batch / world) / accumulation)
    # A short last batch, but for BatchNorm's sake not of one sample a rank.
    data, fields = write_data(folder, model, samples or batch * 4 + (4 if model == "resnet18" else 3))
    spec = gp.write_spec(folder / "spec.yaml", f"""\
name: parity
output: {folder}/out
seed: 7
launch: {{nproc_per_node: {world}, omp_threads: 1}}
model: {{name: {model}, args: {json.dumps(recipe['args'])}}}
data:
{data}train: {{max_steps: {steps}, global_batch: {batch}, micro_batch: {micro_batch}, precision: {precision}{f', clip_grad_norm: {clip}' if clip else ''}, deterministic: true}}
optimizer: {optimizer}
{schedule}
checkpoint: {{every: never}}
""")
    job = gp.launch(spec, env={"GPUTRAIN_INTERNAL_TRACE": f"{folder}/trace", "GPUTRAIN_INTERNAL_TRACE_GRADIENTS": "1"}, timeout=300)
    assert job.code == 0, job.err
    python = run_python(folder, {
        "model": model, "args": recipe["args"], "seed": 7, "dtype": "float64" if precision == "fp64" else "float32", "autocast": precision == "bf16",
        "world": world, "global_batch": batch, "micro_batch": micro_batch, "steps": steps, "clip": clip, "out": str(folder),
        "optimizer": peer_optimizer or {"name": "adamw", "lr": 2e-3, "weight_decay": 0.05}, "factors": factors or [1.0] * steps, **fields})
    return python, folder


def difference(a, b):
    scale = b.abs().max().item()
    return (a.double() - b.double()).abs().max().item() / (scale or 1.0)


def compare(python, folder, model, precision, world):
    """Largest relative differences {losses, gradients, parameters}; each within the tolerance."""
    tolerance = TOLERANCE[precision, world]
    records = gp.events(folder / "out", "step")
    expected = python[0]["losses"]
    assert [record["step"] for record in records] == list(range(1, len(expected) + 1))
    found = {"loss": max(abs(record["loss"] - loss) / abs(loss) for record, loss in zip(records, expected)), "gradient": 0.0, "parameter": 0.0}
    for step, gradients in enumerate(python[0]["gradients"], 1):
        ours = load_file(f"{folder}/trace/attempt-1-rank-0.gradients-{step}.safetensors")
        assert ours.keys() == gradients.keys()
        found["gradient"] = max(found["gradient"], *(difference(ours[name], gradients[name]) for name in gradients))
    ours = load_file(folder / f"out/checkpoints/step-{len(expected):08d}/model.safetensors")
    assert ours.keys() == python[0]["state"].keys()
    for name, value in python[0]["state"].items():
        assert ours[name].dtype == value.dtype and ours[name].shape == value.shape, name
        found["parameter"] = max(found["parameter"], difference(ours[name], value))
    print(f"\n{model} {precision} {world} rank(s): largest relative difference {found}")
    for what, value in found.items():
        assert value <= tolerance, (what, value)
    return ours


CASES = [(model, precision, world, accumulation) for model in ("mlp", "small_cnn") for precision in ("fp32", "fp64") for world in (1, 2)
         for accumulation in (1, 3)]
CASES += [("mlp", "fp32", 3, 1), ("mlp", "fp64", 3, 2), ("mlp", "bf16", 1, 1), ("mlp", "bf16", 2, 1), ("small_cnn", "bf16", 1, 1),
          ("resnet18", "fp32", 1, 1), ("resnet18", "fp32", 2, 1), ("resnet18", "fp64", 1, 2), ("resnet18", "fp64", 2, 1)]


@pytest.mark.parametrize("model, precision, world, accumulation", CASES)
def test_same_losses_gradients_and_parameters(tmp_path, model, precision, world, accumulation):
    python, folder = run_both(tmp_path, model, precision, world, accumulation)
    compare(python, folder, model, precision, world)


@pytest.mark.parametrize("precision, world, accumulation", [("fp32", 2, 2), ("bf16", 1, 1)])
def test_a_vision_transformer(tmp_path, precision, world, accumulation):
    python, folder = run_both(tmp_path, "vit_s_16", precision, world, accumulation, steps=3)
    compare(python, folder, "vit_s_16", precision, world)


@pytest.mark.parametrize("optimizer", [{"name": "adam", "lr": 2e-3, "weight_decay": 0.01}, {"name": "lion", "lr": 2e-4, "betas": [0.9, 0.99], "weight_decay": 0.1},
                                       {"name": "lamb", "lr": 1e-2, "betas": [0.9, 0.999], "eps": 1e-6, "weight_decay": 0.01}], ids=lambda o: o["name"])
@pytest.mark.parametrize("precision, world", [("fp64", 2)])
def test_other_optimizers(tmp_path, optimizer, precision, world):
    python, folder = run_both(tmp_path, "mlp", precision, world, optimizer=json.dumps(optimizer), peer_optimizer=optimizer)
    compare(python, folder, "mlp", precision, world)


@pytest.mark.parametrize("world", [1, 2])
def test_sgd_with_momentum(tmp_path, world):
    python, folder = run_both(tmp_path, "mlp", "fp32", world, optimizer="{name: sgd, lr: 0.05, momentum: 0.9, nesterov: true, weight_decay: 1e-4}",
                              peer_optimizer={"name": "sgd", "lr": 0.05, "momentum": 0.9, "nesterov": True, "weight_decay": 1e-4})
    compare(python, folder, "mlp", "fp32", world)


def test_clipping_and_schedule(tmp_path):
    """Warm-up of 4 updates from 0.1, then cosine to 0 over the rest: the factors are written out here, not taken from the program."""
    factors = [0.1 + 0.9 * u / 4 if u < 4 else 0.5 * (1 + math.cos(math.pi * (u - 4) / 6)) for u in range(10)]
    python, folder = run_both(tmp_path, "mlp", "fp64", 2, clip=0.05, schedule="schedule: {name: cosine, warmup: 4 steps, warmup_start: 0.1}", factors=factors)
    compare(python, folder, "mlp", "fp64", 2)
    records = gp.events(folder / "out", "step")
    assert [record["lr"] for record in records] == pytest.approx([2e-3 * factor for factor in factors], rel=1e-12)
    assert [record["grad_norm"] for record in records] == pytest.approx(python[0]["norms"], rel=1e-9)
    assert min(python[0]["norms"]) > 0.05, "every step was clipped"


@pytest.mark.parametrize("model, tolerance", [("mlp", 1e-5), ("small_cnn", 1e-4)])
def test_twenty_step_loss_curves(tmp_path, model, tolerance):
    python, folder = run_both(tmp_path, model, "fp32", 2, optimizer="{name: adamw, lr: 2e-3}", steps=20, samples=MODELS[model]["global_batch"] * 20,
                              peer_optimizer={"name": "adamw", "lr": 2e-3, "weight_decay": 0.01})
    ours = [record["loss"] for record in gp.events(folder / "out", "step")]
    assert ours == pytest.approx(python[0]["losses"], rel=tolerance)


def test_python_opens_the_checkpoint_and_computes_the_same_logits(tmp_path):
    """Initial weights equal the twin's bit for bit, and the trained ones give Python's logits."""
    python, folder = run_both(tmp_path, "small_cnn", "fp32", 1)
    trained = make_model("small_cnn", 7, MODELS["small_cnn"]["args"])
    trained.load_state_dict(load_file(folder / f"out/checkpoints/step-{STEPS:08d}/model.safetensors"))
    expected = make_model("small_cnn", 7, MODELS["small_cnn"]["args"])
    expected.load_state_dict(python[0]["state"])
    inputs = torch.randn(5, 1, 28, 28, generator=torch.Generator().manual_seed(0))
    assert torch.allclose(trained.eval()(inputs), expected.eval()(inputs), rtol=1e-5, atol=1e-6)


def test_the_optimizer_state_is_pythons_too(tmp_path):
    python, folder = run_both(tmp_path, "mlp", "fp64", 1)
    state = load_file(folder / f"out/checkpoints/step-{STEPS:08d}/optimizer.safetensors")
    assert sorted(state) == sorted(f"{name}/{item}" for name in python[0]["state"] for item in ("exp_avg", "exp_avg_sq", "step"))
    assert all(value.item() == STEPS for name, value in state.items() if name.endswith("/step"))

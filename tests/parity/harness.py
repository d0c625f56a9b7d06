"""The same job in Python PyTorch of the same wheel and in gputrain: losses, gradients of each step, parameters at the end.

Both sides have the same ranks, cuts, micro-batches and threads, so the expected difference is 0; what is found is printed (pytest -s).
Tolerance: max|a-b| / max|b| of each tensor.
"""
import dataclasses
import json
import math
import pathlib
import socket
import subprocess
import sys
import time

import pytest
import torch
from safetensors.torch import load_file

from parity import python_training
from parity.reference_models import make_model
from support import gp

ONE_RANK = {"fp32": 1e-6, "tf32": 1e-6, "fp64": 1e-12, "bf16": 1e-2, "fp16": 1e-2}
MORE_RANKS = {**ONE_RANK, "fp32": 1e-5, "tf32": 1e-5}
ADAMW = {"name": "adamw", "lr": 2e-3, "weight_decay": 0.05}
OPTIMIZERS = {"adamw": ADAMW, "adam": {"name": "adam", "lr": 2e-3, "weight_decay": 0.01},
              "sgd": {"name": "sgd", "lr": 0.05, "momentum": 0.9, "nesterov": True, "weight_decay": 1e-4},
              "lion": {"name": "lion", "lr": 2e-4, "betas": [0.9, 0.99], "weight_decay": 0.1},
              "lamb": {"name": "lamb", "lr": 1e-2, "betas": [0.9, 0.999], "eps": 1e-6, "weight_decay": 0.01}}

CLASSES = {"args": {"in_channels": 3, "num_classes": 10}, "shape": [3, 32, 32], "global_batch": 8}
GPT = {"size": "custom", "layers": 2, "heads": 2, "width": 16, "context": 12, "vocab_size": 31, "dropout": 0.0}
RECIPES = {
    "mlp": {"args": {"in_features": 64, "hidden": [32, 16], "num_classes": 10}, "image": 8, "global_batch": 24},
    "small_cnn": {"args": {"in_channels": 1, "num_classes": 10}, "image": 28, "global_batch": 16},
    "resnet18": CLASSES, "resnet34": CLASSES, "resnet50": CLASSES, "resnet101": CLASSES,
    "vit_s_16": {**CLASSES, "args": {"image_size": 32, "num_classes": 10, "dropout": 0.0}},
    "vit_b_16": {**CLASSES, "args": {"image_size": 32, "num_classes": 10, "dropout": 0.0}},
    "gpt": {"task": "language_model", "args": GPT, "tokens": 12, "global_batch": 6},
    "padded_gpt": {"task": "language_model", "model": "gpt", "args": GPT, "shape": [12], "ids": 31, "target_shape": [12], "classes": 31,
                   "ignore_index": -1, "global_batch": 6},
    "unet2d": {"task": "segmentation", "args": {"in_channels": 3, "num_classes": 3, "width": 4, "levels": 2, "norm": "instance"},
               "shape": [3, 32, 48], "target_shape": [32, 48], "classes": 3, "ignore_index": 255, "global_batch": 6},
    "unet2d_batch": {"task": "segmentation", "model": "unet2d", "args": {"in_channels": 1, "num_classes": 2, "width": 4, "levels": 2, "norm": "batch"},
                     "shape": [1, 16, 16], "target_shape": [16, 16], "classes": 2, "global_batch": 6},
    "unet3d": {"task": "segmentation", "args": {"in_channels": 1, "num_classes": 2, "width": 4, "levels": 1, "norm": "instance"},
               "shape": [1, 8, 8, 12], "target_shape": [8, 8, 12], "classes": 2, "global_batch": 4},
    "regression": {"task": "regression", "model": "mlp", "args": {"in_features": 12, "hidden": [16], "num_classes": 3}, "shape": [12],
                   "target_shape": [3], "global_batch": 10},
}
BATCH_NORM = {"resnet18", "resnet34", "resnet50", "resnet101", "unet2d_batch"}


@dataclasses.dataclass
class Row:
    """One comparison. `train`, `data` and `model_extra` are further lines of the spec's sections; `peer` what they are on the other side."""
    recipe: str
    precision: str = "fp32"
    world: int = 1
    accumulation: int = 1
    optimizer: str = "adamw"
    steps: int = 10
    train: dict = dataclasses.field(default_factory=dict)
    loss: dict = dataclasses.field(default_factory=dict)
    data: dict = dataclasses.field(default_factory=dict)
    model: dict = dataclasses.field(default_factory=dict)
    rules: dict = dataclasses.field(default_factory=dict)
    peer: dict = dataclasses.field(default_factory=dict)
    schedule: dict = dataclasses.field(default_factory=dict)
    samples: int = 0

    def __str__(self):
        extra = [key for part in (self.train, self.loss, self.data, self.model, self.rules, self.schedule) for key in part]
        words = [self.recipe, self.precision, f"{self.world}r", f"a{self.accumulation}", self.optimizer, *extra]
        return "-".join(words)


def rows(*all_rows):
    return pytest.mark.parametrize("row", all_rows, ids=str)


# ---- data --------------------------------------------------------------------------------------------------------------

def write_array(path, values):
    path.write_bytes(values.contiguous().numpy().tobytes())
    return {"path": str(path), "shape": list(values.shape[1:]), "dtype": str(values.dtype).removeprefix("torch.")}


def write_data(folder, recipe, samples):
    """(the spec's data.train, the Python side's fields)."""
    generator = torch.Generator().manual_seed(3)
    if "image" in recipe:
        images, labels = (str(path) for path in gp.write_idx(folder / "data", samples, recipe["image"]))
        return {"format": "idx", "images": images, "labels": labels}, {"images": images, "labels": labels}
    if "tokens" in recipe:
        context = recipe["tokens"]
        tokens = torch.randint(recipe["args"]["vocab_size"], (samples * context + 5,), generator=generator).to(torch.uint16)
        array = write_array(folder / "tokens.bin", tokens)
        source = {"path": array["path"], "dtype": "uint16", "context": context}
        return {"format": "tokens", **source}, {"tokens": source}
    if "ids" in recipe:
        inputs = torch.randint(recipe["ids"], (samples, *recipe["shape"]), generator=generator, dtype=torch.int32)
    else:
        inputs = torch.randn(samples, *recipe["shape"], generator=generator)
    target_shape = (samples, *recipe.get("target_shape", []))
    if recipe.get("task") == "regression":
        targets = torch.randn(target_shape, generator=generator)
    else:
        targets = torch.randint(recipe.get("classes", 10), target_shape, generator=generator)
        if "ignore_index" in recipe:
            targets[torch.rand(target_shape, generator=generator) < 0.3] = recipe["ignore_index"]
    arrays = {"inputs": write_array(folder / "inputs.bin", inputs), "targets": write_array(folder / "targets.bin", targets)}
    return {"format": "raw", **arrays}, arrays


# ---- both sides --------------------------------------------------------------------------------------------------------

def run_python(folder, job):
    if job["world"] == 1:
        return python_training.train(job, 0)
    for attempt in range(3):
        if start_python(folder, job):
            return torch.load(f"{job['out']}/rank-0.pt", weights_only=True)
        print(f"the peer's ranks did not connect, attempt {attempt + 1}")
    pytest.fail("the peer's ranks did not connect in three attempts")


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


def spec_of(folder, row, recipe, data, micro_batch):
    """A spec is YAML, and JSON is YAML."""
    model = {"name": recipe.get("model", row.recipe), "args": recipe["args"], **row.model}
    data_section = {"train": data, **row.data}
    if "image" in recipe:
        data_section["transforms"] = {"train": ["to_tensor", {"normalize": {"mean": [0.25], "std": [0.5]}}]}
    return {
        "name": "parity", "output": f"{folder}/out", "seed": 7, "launch": {"nproc_per_node": row.world, "omp_threads": 1},
        "task": recipe.get("task", "classification"), "model": {key: value for key, value in model.items() if value is not None},
        "data": data_section, "loss": {**{key: recipe[key] for key in ("ignore_index",) if key in recipe}, **row.loss},
        "train": {"max_steps": row.steps, "global_batch": recipe["global_batch"], "micro_batch": micro_batch, "precision": row.precision,
                  "deterministic": True, **row.train},
        "optimizer": {**OPTIMIZERS[row.optimizer], **row.rules}, "schedule": row.schedule, "checkpoint": {"every": "never"}}


def run_both(folder, row):
    """Python's result; ours lies under `folder`."""
    recipe = RECIPES[row.recipe]
    batch = recipe["global_batch"]
    micro_batch = math.ceil(math.ceil(batch / row.world) / row.accumulation)
    # A short last batch, but for BatchNorm's sake not of one sample a rank.
    data, fields = write_data(folder, recipe, row.samples or batch * 4 + (4 if row.recipe in BATCH_NORM else 3))
    spec = gp.write_spec(folder / "spec.yaml", json.dumps(spec_of(folder, row, recipe, data, micro_batch)))
    environment = {"GPUTRAIN_INTERNAL_TRACE": f"{folder}/trace", "GPUTRAIN_INTERNAL_TRACE_GRADIENTS": "1"}
    job = gp.launch(spec, env=environment, timeout=300)
    assert job.code == 0, job.err
    loss = {**{key: recipe[key] for key in ("ignore_index",) if key in recipe}, **row.loss}
    peer = {
        "model": recipe.get("model", row.recipe), "args": recipe["args"], "seed": 7, "precision": row.precision, "world": row.world,
        "task": recipe.get("task", "classification"), "loss": loss, "global_batch": batch, "micro_batch": micro_batch, "steps": row.steps,
        "out": str(folder), "optimizer": OPTIMIZERS[row.optimizer], "factors": [1.0] * row.steps, **fields, **row.peer}
    python = run_python(folder, peer)
    if row.precision == "bf16" and row.world == 1:
        python["other_threads"] = other_threads(peer, python)
    return python


def difference(a, b):
    scale = b.abs().max().item()
    return (a.double() - b.double()).abs().max().item() / (scale or 1.0)


def largest(ours, theirs):
    assert ours.keys() == theirs.keys()
    found = 0.0
    for name, value in theirs.items():
        assert ours[name].dtype == value.dtype and ours[name].shape == value.shape, name
        one = difference(ours[name], value)
        assert math.isfinite(one), (name, one)
        found = max(found, one)
    return found


def other_threads(job, python):
    """What Python differs by from itself with another number of threads: (largest of the losses, largest of the parameters)."""
    other = python_training.train({**job, "threads": 2}, 0)
    return {"loss": max(abs(a - b) / abs(b) for a, b in zip(other["losses"], python["losses"])), "parameter": largest(other["state"], python["state"])}


def compare(python, folder, row):
    """Each largest relative difference is within the tolerance. Returns our model's tensors."""
    tolerance = (ONE_RANK if row.world == 1 else MORE_RANKS)[row.precision]
    records = gp.events(folder / "out", "step")
    expected = python["losses"]
    assert [record["step"] for record in records] == list(range(1, len(expected) + 1))
    found = {"loss": max(abs(record["loss"] - loss) / abs(loss) for record, loss in zip(records, expected)), "gradient": 0.0}
    for step, gradients in enumerate(python["gradients"], 1):
        ours = load_file(f"{folder}/trace/attempt-1-rank-0.gradients-{step}.safetensors")
        found["gradient"] = max(found["gradient"], largest(ours, gradients))
    checkpoint = folder / f"out/checkpoints/step-{len(expected):08d}"
    ours = load_file(checkpoint / "model.safetensors")
    found["parameter"] = largest(ours, python["state"])
    if python["averages"]:
        saved = load_file(checkpoint / "optimizer.safetensors")
        found["average"] = largest({name.removesuffix("/ema"): value for name, value in saved.items() if name.endswith("/ema")}, python["averages"])
    print(f"\n{row}: largest relative difference {found}")
    for what, value in found.items():
        assert math.isfinite(value) and value <= tolerance, (what, value)
    for what, value in python.get("other_threads", {}).items():
        print(f"  {what}: Python with two threads against itself {value}")
        assert found[what] <= value, what
    return ours


def run_and_compare(folder, row):
    python = run_both(folder, row)
    return python, compare(python, folder, row)


def twin(recipe):
    return make_model(RECIPES[recipe].get("model", recipe), 7, RECIPES[recipe]["args"])

"""A GPT on Shakespeare (configs/gpt_shakespeare.yaml) against the same job in Python: 2,000 steps over the same windows."""
import json
import os
import pathlib

import pytest
import torch

from parity import python_training
from support import gp

TEXTS = gp.BUILD / "shakespeare"  # made by scripts/test.sh


def warm_up(steps):
    return [min(1.0, update / 100) for update in range(steps)]


def validation_loss(model, text, context):
    """Mean over all whole windows, each once."""
    windows = (len(text) - 1) // context
    inputs, targets = text[:windows * context].view(windows, context), text[1:windows * context + 1].view(windows, context)
    total = 0.0
    with torch.no_grad():
        for rows in range(0, windows, 512):
            logits = model(inputs[rows:rows + 512])
            total += torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets[rows:rows + 512].flatten(), reduction="sum").double().item()
    return total / (windows * context)


@pytest.mark.skipif(not TEXTS.exists(), reason="scripts/shakespeare.sh BUILD/shakespeare has not been run")
def test_validation_loss_is_pythons_after_2000_steps(tmp_path):
    data = {"path": str(TEXTS / "train.bin"), "dtype": "uint8", "context": 64}
    args = ["--set", f"data.train.path={TEXTS}/train.bin", "--set", f"data.val.path={TEXTS}/val.bin", "--set", f"output={tmp_path}/out",
            "--nproc-per-node", "2", "--set", "launch.omp_threads=1"]
    job = gp.launch(gp.ROOT / "configs/gpt_shakespeare.yaml", *args, timeout=1000)
    assert job.code == 0, job.err
    ours = gp.events(tmp_path / "out", "eval")[-1]
    assert ours["step"] == 2000
    optimizer = {"name": "adamw", "lr": 1e-3, "betas": [0.9, 0.99], "weight_decay": 0.1}
    peer = python_training.Peer({
        "model": "gpt", "args": json.loads((tmp_path / "out/plan.json").read_text())["model"]["args"], "seed": 1, "precision": "fp32", "world": 1, "task": "language_model", "global_batch": 24,
        "micro_batch": 24, "steps": 2000, "out": str(tmp_path), "optimizer": optimizer, "factors": warm_up(2000), "decay_norm_and_bias": False,
        "clip": 1.0, "tokens": data}, 0)
    torch.set_num_threads(os.cpu_count())
    peer.keep_gradients = False
    peer.model.train()
    for step in range(2000):
        peer.step(step)
    text = torch.frombuffer(bytearray(pathlib.Path(TEXTS / "val.bin").read_bytes()), dtype=torch.uint8).long()
    theirs = validation_loss(peer.model.eval(), text, 64)
    print(f"\nvalidation loss {ours['loss']:.4f}, Python's {theirs:.4f}; perplexity {ours['perplexity']:.3f}")
    assert ours["loss"] == pytest.approx(theirs, abs=0.03)
    assert ours["loss"] <= 1.85

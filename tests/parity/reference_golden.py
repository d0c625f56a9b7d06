"""Writes tests/golden/{models,numerics}.json: what Python PyTorch computes, frozen for the unit tests of src/model and src/train.

    reference_golden.py OUTPUT_FOLDER        # run with the pinned torch, torchvision and numpy

Tensors are little-endian bytes in hex (exact). Some kernels round differently by instruction set, so what must match to the bit
is recorded once for each of ATen's CPU capabilities: the script runs itself again under ATEN_CPU_CAPABILITY.
"""

import json
import math
import os
import subprocess
import sys

import numpy as np
import torch
import torch.nn.functional as F
import reference_objectives
from reference_models import ResNet, make_model, tv
from reference_optimizers import OPTIMIZERS as CLASSES

CAPABILITIES = ["default", "avx2", "avx512"]
MODELS = [
    ("mlp", 1, {"in_features": 12, "hidden": [8, 6], "num_classes": 3, "dropout": 0.0}, [5, 12]),
    ("mlp", 7, {"in_features": 784, "hidden": [64], "num_classes": 10, "dropout": 0.5}, [5, 1, 28, 28]),
    ("small_cnn", 1, {"in_channels": 1, "num_classes": 10, "dropout": 0.0}, [3, 1, 28, 28]),
    ("small_cnn", 3, {"in_channels": 3, "num_classes": 4, "dropout": 0.25}, [3, 3, 28, 28]),
    ("resnet18", 1, {"in_channels": 3, "num_classes": 10}, [2, 3, 64, 64]),
    ("resnet18", 2, {"in_channels": 1, "num_classes": 5}, [2, 1, 64, 64]),
    ("resnet50", 1, {"in_channels": 3, "num_classes": 7}, [2, 3, 64, 64]),
    ("resnet50", 5, {"in_channels": 4, "num_classes": 7}, [2, 4, 64, 64]),
    ("resnet34", 1, {"in_channels": 3, "num_classes": 7}, [2, 3, 64, 64]),
    ("resnet101", 1, {"in_channels": 3, "num_classes": 7}, [2, 3, 64, 64]),
    ("vit_b_16", 1, {"image_size": 32, "num_classes": 7, "dropout": 0.0}, [2, 3, 32, 32]),
    ("vit_s_16", 6, {"image_size": 48, "num_classes": 5, "dropout": 0.1}, [2, 3, 48, 48]),
    ("gpt", 1, {"size": "custom", "layers": 2, "heads": 2, "width": 8, "context": 8, "vocab_size": 11, "dropout": 0.0}, [2, 6]),
    ("gpt", 4, {"size": "custom", "layers": 3, "heads": 1, "width": 6, "context": 5, "vocab_size": 7, "dropout": 0.1}, [3, 5]),
    ("unet2d", 1, {"in_channels": 3, "num_classes": 3, "width": 4, "levels": 2, "norm": "instance"}, [1, 3, 8, 12]),
    ("unet2d", 2, {"in_channels": 1, "num_classes": 2, "width": 3, "levels": 3, "norm": "batch"}, [2, 1, 8, 8]),
    ("unet3d", 1, {"in_channels": 1, "num_classes": 2, "width": 4, "levels": 1, "norm": "instance"}, [2, 1, 4, 4, 4]),
    ("unet3d", 3, {"in_channels": 2, "num_classes": 2, "width": 2, "levels": 2, "norm": "batch"}, [1, 2, 4, 4, 8]),
]


def ramp(shape, dtype, salt=0):
    """Numbers in [-1, 1) that C++ makes too, without a random generator."""
    i = torch.arange(int(np.prod(shape)), dtype=torch.int64) + salt * 1000003
    bits = (i * 2654435761) % 2**32
    return (bits.double() / 2**31 - 1).to(dtype).reshape(shape)


def token_ramp(shape, vocab_size):
    return ramp(shape, torch.float64).mul(2**31).long().remainder(vocab_size)


def to_hex(tensor):
    return tensor.detach().contiguous().numpy().tobytes().hex()


def checksum(tensor):
    """Sum over 32-bit words w_i of (w_i + 1) (2 i + 1), modulo 2^64."""
    words = np.frombuffer(tensor.detach().contiguous().numpy().tobytes(), dtype="<u4").astype(np.uint64)
    places = 2 * np.arange(len(words), dtype=np.uint64) + 1
    return f"{int(np.sum((words + 1) * places, dtype=np.uint64)):016x}"


# --- what must match to the bit -----------------------------------------------------------------------------------------


def initial_weights():
    out = []
    for name, seed, args, _ in MODELS:
        model = make_model(name, seed, args)
        out.append([checksum(p) for p in model.parameters()])
    return out


OPTIMIZERS = [
    ("adamw", {"lr": 0.01, "betas": [0.9, 0.999], "eps": 1e-8, "weight_decay": 0.05}),
    ("adamw", {"lr": 0.003, "betas": [0.8, 0.95], "eps": 1e-6, "weight_decay": 0.0}),
    ("sgd", {"lr": 0.1, "momentum": 0.0, "nesterov": False, "weight_decay": 0.0}),
    ("sgd", {"lr": 0.1, "momentum": 0.0, "nesterov": False, "weight_decay": 0.01}),
    ("sgd", {"lr": 0.1, "momentum": 0.9, "nesterov": False, "weight_decay": 0.01}),
    ("sgd", {"lr": 0.05, "momentum": 0.9, "nesterov": True, "weight_decay": 0.001}),
    ("adam", {"lr": 0.01, "betas": [0.9, 0.999], "eps": 1e-8, "weight_decay": 0.0}),
    ("adam", {"lr": 0.003, "betas": [0.8, 0.95], "eps": 1e-6, "weight_decay": 0.05}),
    ("lion", {"lr": 0.01, "betas": [0.9, 0.99], "weight_decay": 0.0}),
    ("lion", {"lr": 0.003, "betas": [0.95, 0.98], "weight_decay": 0.1}),
    ("lamb", {"lr": 0.01, "betas": [0.9, 0.999], "eps": 1e-6, "weight_decay": 0.01}),
    ("lamb", {"lr": 0.05, "betas": [0.8, 0.95], "eps": 1e-8, "weight_decay": 0.0}),
]
SHAPES = {"a.weight": [7, 5], "a.bias": [7], "b": [3, 2, 3]}
LR_FACTORS = [0.1, 0.55, 1.0, 0.7, 0.3]


def optimizer_run(name, args, dtype):
    """Five updates at the factors above; gradients are ramps. Final parameters and state."""
    params = {n: torch.nn.Parameter(ramp(s, dtype, k)) for k, (n, s) in enumerate(SHAPES.items())}
    optimizer = CLASSES[name](list(params.values()), fused=True, **args)
    for step, factor in enumerate(LR_FACTORS):
        for k, p in enumerate(params.values()):
            p.grad = ramp(p.shape, dtype, 10 + 7 * step + k) * 0.5
        optimizer.param_groups[0]["lr"] = args["lr"] * factor
        optimizer.step()
    state = {}
    for n, p in params.items():
        for item, value in optimizer.state[p].items():
            if value is not None:  # SGD without momentum keeps a None
                state[f"{n}/{item}"] = to_hex(value)
    return {"parameters": {n: to_hex(p) for n, p in params.items()}, "state": state}


def optimizer_runs():
    out = []
    for name, args in OPTIMIZERS:
        for dtype in (torch.float32, torch.float64):
            out.append({"name": name, "args": args, "dtype": str(dtype)[6:], **optimizer_run(name, args, dtype)})
    return out


def clip_runs():
    out = []
    for dtype in (torch.float32, torch.float64):
        for max_norm in (0.5, 100.0):
            params = [torch.nn.Parameter(torch.zeros(s, dtype=dtype)) for s in SHAPES.values()]
            for k, p in enumerate(params):
                p.grad = ramp(p.shape, dtype, 50 + k)
            norm = torch.nn.utils.clip_grad_norm_(params, max_norm)
            out.append({"dtype": str(dtype)[6:], "max_norm": max_norm, "norm": to_hex(norm),
                        "gradients": [to_hex(p.grad) for p in params]})
    return out


def exact():
    return {"weights": initial_weights(), "optimizers": optimizer_runs(), "clip": clip_runs(),
            "scaler": scaler_run()}


# --- what is compared with a tolerance ----------------------------------------------------------------------------------


def behaviour(name, seed, args, shape):
    """Names, shapes; logits and gradients of one double-precision training pass, then evaluation logits after it. Targets count up
    modulo the number of classes, along the rows of logits whose classes are put last."""
    model = make_model(name, seed, args, torch.float64)
    tokens = "vocab_size" in args
    classes = args["vocab_size" if tokens else "num_classes"]
    inputs = token_ramp(shape, classes) if tokens else ramp(shape, torch.float64)
    torch.manual_seed(99)  # the dropout masks
    logits = model(inputs)
    rows = logits.movedim(2 if tokens else 1, -1).reshape(-1, classes)
    loss = F.cross_entropy(rows, torch.arange(len(rows)) % classes, reduction="sum")
    loss.backward()
    model.eval()
    with torch.no_grad():
        after = model(inputs)
    return {
        "name": name, "seed": seed, "args": args, "input_shape": shape,
        "parameters": [[n, list(p.shape)] for n, p in model.named_parameters()],
        "buffers": [[n, str(b.dtype)[6:], b.double().sum().item()] for n, b in model.named_buffers()],
        "logits_shape": list(logits.shape), "logits": to_hex(logits), "loss": loss.item(), "eval_logits": to_hex(after),
        "grad_norms": [p.grad.norm().item() for p in model.parameters()],
    }


def schedule_tables():
    """From torch's own schedulers, chained after (or, where milestones count from the start, beside) a LinearLR as a Python user would
    write it; inverse_sqrt and wsd, which torch lacks, from their papers' formulas."""
    from torch.optim import lr_scheduler as s

    total = 50

    def rate(make, w, start, beside):
        """The factor of each update of a run."""
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
        warm = [s.LinearLR(optimizer, start, 1.0, total_iters=w)] if w > 0 else []
        if beside:
            scheduler = s.ChainedScheduler([*warm, make(optimizer)], optimizer)
        else:
            scheduler = s.SequentialLR(optimizer, [*warm, make(optimizer)], [w]) if warm else make(optimizer)
        factors = []
        for _ in range(total + 1):
            factors.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            if len(factors) < total or not isinstance(scheduler, s.OneCycleLR):  # that one refuses a step past its end
                scheduler.step()
        return factors

    def by_formula(formula):
        return lambda o: s.LambdaLR(o, formula)

    def wsd(w, decay, shape, last):
        def factor(t):  # t counts from the end of the warm-up
            left = t - (total - w - decay)
            part = min(1.0, max(0.0, left / decay))
            fallen = {"linear": part, "cosine": (1 - math.cos(math.pi * part)) / 2, "sqrt": math.sqrt(part)}[shape]
            return 1 + (last - 1) * fallen
        return by_formula(factor)

    def one_cycle(peak, shape, start=25.0, end=1e4):
        return lambda o: s.OneCycleLR(o, 1.0, total_steps=total, pct_start=peak, anneal_strategy=shape, cycle_momentum=False,
                                      div_factor=start, final_div_factor=end)

    rows = [
        ("constant", {}, 10, 0.1, by_formula(lambda _: 1.0)),
        ("constant", {}, 0, 0.0, by_formula(lambda _: 1.0)),
        ("linear", {"final_factor": 0.0}, 10, 0.1, lambda o: s.LinearLR(o, 1.0, 0.0, total_iters=40)),
        ("linear", {"final_factor": 0.2}, 0, 0.0, lambda o: s.LinearLR(o, 1.0, 0.2, total_iters=50)),
        ("cosine", {"final_factor": 0.0}, 10, 0.1, lambda o: s.CosineAnnealingLR(o, 40)),
        ("cosine", {"final_factor": 0.05}, 0, 0.0, lambda o: s.CosineAnnealingLR(o, 50, eta_min=0.05)),
        ("cosine", {"final_factor": 0.01}, 1, 0.5, lambda o: s.CosineAnnealingLR(o, 49, eta_min=0.01)),
        ("cosine_restarts", {"first": "7 steps", "multiplier": 2}, 5, 0.1, lambda o: s.CosineAnnealingWarmRestarts(o, 7, 2)),
        ("cosine_restarts", {"first": "8 steps", "final_factor": 0.1}, 0, 0.0, lambda o: s.CosineAnnealingWarmRestarts(o, 8, 1, eta_min=0.1)),
        ("step", {"every": "12 steps"}, 10, 0.1, lambda o: s.StepLR(o, 12)),
        ("step", {"every": "10%", "gamma": 0.5}, 0, 0.0, lambda o: s.StepLR(o, 5, 0.5)),
        ("multistep", {"milestones": ["20 steps", "60%", "45 steps"]}, 10, 0.1, lambda o: s.MultiStepLR(o, [20, 30, 45])),
        ("multistep", {"milestones": ["1 steps", "49 steps"], "gamma": 0.3}, 0, 0.0, lambda o: s.MultiStepLR(o, [1, 49], 0.3)),
        ("polynomial", {"power": 2.0}, 10, 0.1, lambda o: s.PolynomialLR(o, 40, 2.0)),
        ("polynomial", {"power": 0.9}, 0, 0.0, lambda o: s.PolynomialLR(o, 50, 0.9)),
        ("inverse_sqrt", {"timescale": "auto"}, 10, 0.1, by_formula(lambda t: math.sqrt(10 / (10 + t)))),
        ("inverse_sqrt", {"timescale": "100 steps"}, 5, 0.1, by_formula(lambda t: math.sqrt(100 / (100 + t)))),
        ("one_cycle", {}, 0, 0.0, one_cycle(0.3, "cos")),
        ("one_cycle", {"shape": "linear", "peak": 0.2, "start_divisor": 10.0, "final_divisor": 100.0}, 0, 0.0, one_cycle(0.2, "linear", 10.0, 100.0)),
        ("wsd", {"decay": "20%", "final_factor": 0.1}, 10, 0.1, wsd(10, 10, "linear", 0.1)),
        ("wsd", {"decay": "15 steps", "shape": "cosine"}, 10, 0.1, wsd(10, 15, "cosine", 0.0)),
        ("wsd", {"decay": "15 steps", "shape": "sqrt", "final_factor": 0.05}, 0, 0.0, wsd(0, 15, "sqrt", 0.05)),
        ("wsd", {"decay": "40 steps"}, 10, 0.1, wsd(10, 40, "linear", 0.0)),
    ]
    out = []
    for name, args, w, start, make in rows:
        factors = rate(make, w, start, beside=name in ("step", "multistep"))
        last = total - 1 if name == "one_cycle" else total
        out.append({"name": name, "args": args, "warmup": w, "warmup_start": start, "total": total,
                    "table": [[u, factors[u]] for u in range(last + 1)]})
    return out


def scaler_run():
    """scale and growth tracker of torch.amp.GradScaler with a growth interval of 3; True = an infinite gradient."""
    scaler = torch.amp.GradScaler("cpu", growth_interval=3)
    p = torch.nn.Parameter(torch.tensor([1.0, 2.0]))
    optimizer = torch.optim.SGD([p], lr=0.1)
    steps = []
    for bad in [False, False, True, False, False, False, False, True, True, False, False, False, False]:
        optimizer.zero_grad()
        scaler.scale((p * torch.tensor([0.25, 3.0])).sum()).backward()
        if bad:
            p.grad[1] = float("inf")
        scaler.step(optimizer)
        scaler.update()
        steps.append({"bad": bad, "scale": scaler.get_scale(), "growth_tracker": scaler._get_growth_tracker(),
                      "parameter": to_hex(p)})
    return steps


def check_twin():
    """The twin's own ResNet at 3 channels is torchvision's."""
    torch.manual_seed(4)
    ours = ResNet(tv.BasicBlock, [2, 2, 2, 2], 3, 10).state_dict()
    torch.manual_seed(4)
    theirs = tv.resnet18(weights=None, num_classes=10).state_dict()
    assert list(ours) == list(theirs) and all(torch.equal(ours[k], theirs[k]) for k in ours)


def main():
    torch.set_num_threads(1)
    if sys.argv[1] == "--exact":
        json.dump({"capability": torch.backends.cpu.get_cpu_capability(), **exact()}, sys.stdout)
        return
    check_twin()
    by_capability = {}
    for capability in CAPABILITIES:
        run = subprocess.run([sys.executable, __file__, "--exact"], env={**os.environ, "ATEN_CPU_CAPABILITY": capability},
                             stdout=subprocess.PIPE, check=True, text=True)
        result = json.loads(run.stdout)
        by_capability[result.pop("capability")] = result
    if by_capability.get("AVX512") == by_capability["AVX2"]:
        del by_capability["AVX512"]  # the tests read AVX2's then
    models = {"models": [behaviour(*m) for m in MODELS],
              "weights": {c: r.pop("weights") for c, r in by_capability.items()}}
    numerics = {"schedules": schedule_tables(), "objectives": reference_objectives.golden(ramp),
                "exact": by_capability}
    for name, value in (("models", models), ("numerics", numerics)):
        with open(os.path.join(sys.argv[1], f"{name}.json"), "w", encoding="utf-8") as file:
            json.dump(value, file, separators=(",", ":"))
            file.write("\n")


if __name__ == "__main__":
    main()

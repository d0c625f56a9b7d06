"""The peer of the benches: the same job in Python PyTorch with DDP, as a careful user would write it. Run under torchrun.

usage: torchrun ... peer_ddp.py JOB.json   (see sides.py for the fields)

Same model and initial weights (seed), same sample ids (job["ids"], an int64 .npy made from the order contract), same shares and loss, fused
AdamW, one JSON line a step from rank 0, after one with its settings. Saves every job["save_every"] steps and resumes from that, so that a
restart can be timed.
"""
import collections
import json
import os
import pathlib
import sys
import time

import numpy
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel



def build(job):
    """As torch.manual_seed and the order of construction make it. Imports what this model needs and no more: starts are timed."""
    torch.manual_seed(job["seed"])
    args = job["args"]
    if job["model"] == "mlp":
        widths = [args["in_features"], *args["hidden"], args["num_classes"]]
        layers = collections.OrderedDict(flatten=torch.nn.Flatten())
        for i in range(1, len(widths)):
            layers[f"fc{i}"] = torch.nn.Linear(widths[i - 1], widths[i])
            if i + 1 < len(widths):
                layers[f"relu{i}"] = torch.nn.ReLU()
        return torch.nn.Sequential(layers)
    if job["model"] == "gpt":
        sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests"))
        from parity.reference_gpt import GPT
        return GPT(**args)
    import torchvision
    return torchvision.models.get_model(job["model"], weights=None, num_classes=args["num_classes"])


def save_weights(model, path):
    from safetensors.torch import save_file
    save_file({name: parameter.detach().contiguous() for name, parameter in model.named_parameters()}, path)


def read_data(job):
    """(samples, batch), where batch(ids) is (inputs, targets)."""
    if job["context"]:
        tokens, context = numpy.memmap(job["inputs"], dtype=numpy.uint8, mode="r"), job["context"]
        windows = (len(tokens) - 1) // context
        inputs, targets = (tokens[shift:][:windows * context].reshape(windows, context) for shift in (0, 1))
        return windows, lambda ids: tuple(torch.from_numpy(array[ids].astype(numpy.int64)) for array in (inputs, targets))
    inputs = numpy.memmap(job["inputs"], dtype=numpy.float32, mode="r").reshape(-1, *job["shape"])
    targets = numpy.memmap(job["targets"], dtype=numpy.int64, mode="r")
    return len(inputs), lambda ids: (torch.from_numpy(inputs[ids]), torch.from_numpy(targets[ids]))


def settings(model, world):
    """What this process really has, for the bench to compare with the other side's."""
    return {"ranks": world, "threads": torch.get_num_threads(), "parameters": sum(p.numel() for p in model.parameters()),
            "dtype": str(next(model.parameters()).dtype).removeprefix("torch."), "clip": 0.0}


def main():
    job = json.load(open(sys.argv[1]))
    torch.set_num_threads(job["threads"])
    world, rank = int(os.environ["WORLD_SIZE"]), int(os.environ["RANK"])
    dist.init_process_group("gloo")
    samples, batch_of = read_data(job)
    ids = numpy.load(job["ids"])
    plain = build(job)
    if job["first_weights"] and rank == 0:
        save_weights(plain, job["first_weights"])
    model = DistributedDataParallel(plain, gradient_as_bucket_view=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=job["lr"], weight_decay=0.01, fused=True)
    step = 0
    if os.path.exists(job["save"]):
        state = torch.load(job["save"], weights_only=True)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        step = state["step"]
    if rank == 0:
        log = open(job["log"], "a")
        log.write(json.dumps({"settings": settings(plain, world)}) + "\n")
    batch = job["global_batch"]
    count = batch * (job["context"] or 1)  # of samples, or tokens
    per_epoch = samples // batch
    model.train()
    while step < job["steps"]:
        begin = step % per_epoch * batch
        mine = ids[step // per_epoch, begin + rank * batch // world:begin + (rank + 1) * batch // world]
        optimizer.zero_grad(set_to_none=False)
        inputs, targets = batch_of(mine)
        logits = model(inputs)
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, -2), targets.flatten(), reduction="sum") * world / count
        loss.backward()
        optimizer.step()
        total = loss.detach() / world
        dist.all_reduce(total)
        step += 1
        if rank == 0:
            log.write(json.dumps({"step": step, "loss": total.item(), "time": time.time()}) + "\n")
            log.flush()
            if job["save_every"] and step % job["save_every"] == 0:
                torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, job["save"] + ".tmp")
                os.replace(job["save"] + ".tmp", job["save"])
    dist.barrier()
    # No destroy_process_group and no interpreter shutdown: about one in fifteen of those aborts ("terminate called without an active
    # exception", torch 2.11), and torchrun then starts both ranks again although every step is done.
    os._exit(0)


main()

"""The peer of bench/startup: the same job in Python PyTorch with DDP, as a careful user would write it. Run under torchrun.

usage: torchrun ... peer_ddp.py JOB.json   (see startup.py for the fields)

Same model and initial weights (seed), same sample ids (job["ids"], an int64 .npy made from the order contract), same shares and loss, fused
AdamW, one JSON line a step from rank 0. Saves every job["save_every"] steps and resumes from that, so that a restart can be timed.
"""
import json
import os
import sys
import time

import numpy
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def build(job):
    torch.manual_seed(job["seed"])
    if job["model"] == "mlp":
        widths = [784, 256, 256, 10]
        layers = []
        for i in range(3):
            layers += [torch.nn.Linear(widths[i], widths[i + 1])] + ([torch.nn.ReLU()] if i < 2 else [])
        return torch.nn.Sequential(torch.nn.Flatten(), *layers)
    import torchvision
    return torchvision.models.resnet18(weights=None, num_classes=10)


def main():
    job = json.load(open(sys.argv[1]))
    torch.set_num_threads(job["threads"])
    world, rank = int(os.environ["WORLD_SIZE"]), int(os.environ["RANK"])
    dist.init_process_group("gloo")
    inputs = numpy.memmap(job["inputs"], dtype=numpy.float32, mode="r").reshape(-1, *job["shape"])
    targets = numpy.memmap(job["targets"], dtype=numpy.int64, mode="r")
    ids = numpy.load(job["ids"])
    model = DistributedDataParallel(build(job), gradient_as_bucket_view=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=job["lr"], weight_decay=0.01, fused=True)
    step = 0
    if os.path.exists(job["save"]):
        state = torch.load(job["save"], weights_only=True)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        step = state["step"]
    log = open(job["log"], "a") if rank == 0 else None
    batch = job["global_batch"]
    per_epoch = len(inputs) // batch
    model.train()
    while step < job["steps"]:
        begin = step % per_epoch * batch
        mine = ids[step // per_epoch, begin + rank * batch // world:begin + (rank + 1) * batch // world]
        optimizer.zero_grad(set_to_none=False)
        logits = model(torch.from_numpy(inputs[mine]))
        loss = torch.nn.functional.cross_entropy(logits, torch.from_numpy(targets[mine]), reduction="sum") * world / batch
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

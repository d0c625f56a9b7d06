"""One rank of the same job in Python PyTorch: DDP, fused optimizer, the order contract's sample ids. Started by test_training.py.

usage: python_training.py JOB.json RANK     job: model, args, seed, dtype, autocast, world, port, images or inputs, labels, global_batch,
micro_batch, steps, optimizer, schedule factors, clip, deterministic, out. Writes OUT/rank-RANK.pt: losses, gradients of each step, parameters.
"""
import contextlib
import json
import os
import pathlib
import struct
import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from parity.reference_models import make_model  # noqa: E402
from parity.reference_optimizers import OPTIMIZERS  # noqa: E402
from support import order  # noqa: E402


def read_data(job):
    """(inputs as the model wants them, labels)."""
    dtype = getattr(torch, job["dtype"])
    if "images" in job:
        data = pathlib.Path(job["images"]).read_bytes()
        _, n, h, w = struct.unpack(">IIII", data[:16])
        pixels = torch.frombuffer(bytearray(data[16:]), dtype=torch.uint8).view(n, 1, h, w)
        labels = torch.frombuffer(bytearray(pathlib.Path(job["labels"]).read_bytes()[8:]), dtype=torch.uint8).long()
        inputs = pixels.to(dtype).div(255)  # torchvision's to_tensor
        mean, std = torch.tensor(0.25, dtype=dtype), torch.tensor(0.5, dtype=dtype)
        return inputs.sub_(mean).div_(std), labels
    inputs = torch.frombuffer(bytearray(pathlib.Path(job["inputs"]).read_bytes()), dtype=torch.float32).view(-1, *job["shape"]).to(dtype)
    return inputs, torch.frombuffer(bytearray(pathlib.Path(job["labels"]).read_bytes()), dtype=torch.int64)


def make_optimizer(job, parameters):
    options = dict(job["optimizer"])
    return OPTIMIZERS[options.pop("name")](parameters, fused=True, **options)


def main():
    job, rank = json.load(open(sys.argv[1])), int(sys.argv[2])
    torch.set_num_threads(1)
    world = job["world"]
    model = make_model(job["model"], job["seed"], job["args"], getattr(torch, job["dtype"]))
    names = [name for name, _ in model.named_parameters()]
    if world > 1:
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(job["port"]))
        dist.init_process_group("gloo", rank=rank, world_size=world)
    pathlib.Path(job["out"], f"connected-{rank}").touch()
    if world > 1:
        model = DistributedDataParallel(model, gradient_as_bucket_view=True)
    optimizer = make_optimizer(job, model.parameters())
    base_lr = optimizer.param_groups[0]["lr"]
    inputs, labels = read_data(job)
    batch, count = job["global_batch"], len(labels)
    per_epoch = -(-count // batch)
    losses, gradients, norms = [], [], []
    model.train()
    for step in range(job["steps"]):
        ids = order.permutation(count, job["seed"], step // per_epoch)
        window = ids[step % per_epoch * batch:][:batch]
        begin, end = order.share(len(window), rank, world)
        mine = torch.tensor(window[begin:end])
        cuts = list(mine.split(job["micro_batch"]))
        optimizer.zero_grad(set_to_none=False)
        total = torch.zeros((), dtype=torch.float64)
        for i, cut in enumerate(cuts):
            last = i + 1 == len(cuts)
            context = model.no_sync() if world > 1 and not last else contextlib.nullcontext()
            with context:
                with torch.autocast("cpu", dtype=torch.bfloat16, enabled=job["autocast"]):
                    logits = model(inputs[cut])
                    loss = F.cross_entropy(logits.float() if job["autocast"] else logits, labels[cut], reduction="sum")
                (loss * (world / len(window))).backward()
            total += loss.detach().double()
        if world > 1:
            dist.all_reduce(total)
        losses.append(total.item() / len(window))
        gradients.append([p.grad.clone() for p in model.parameters()])
        norms.append(torch.nn.utils.get_total_norm([p.grad for p in model.parameters()], foreach=True).item())
        if job["clip"]:
            torch.nn.utils.clip_grad_norm_(model.parameters(), job["clip"], foreach=True)
        optimizer.param_groups[0]["lr"] = base_lr * job["factors"][step]
        optimizer.step()
    plain = model.module if world > 1 else model
    torch.save({"losses": losses, "norms": norms, "gradients": [dict(zip(names, step)) for step in gradients],
                "state": plain.state_dict()}, f"{job['out']}/rank-{rank}.pt")
    if world > 1:
        dist.barrier()
        os._exit(0)  # the shutdown of two Gloo ranks aborts now and then, see bench/peer_ddp.py


main()

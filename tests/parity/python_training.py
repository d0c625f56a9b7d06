"""One rank of the same job in Python PyTorch: DDP, fused optimizer, the order contract's sample ids. Started by harness.py.

usage: python_training.py JOB.json RANK     job: see harness.py. Writes OUT/rank-RANK.pt: losses, grad norms, gradients of each step, the
model's state, its moving average. With one rank harness.py calls train() itself.
"""
import contextlib
import fnmatch
import functools
import json
import math
import os
import pathlib
import struct
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.optim.swa_utils import get_ema_multi_avg_fn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from parity.reference_models import make_model  # noqa: E402
from parity.reference_objectives import loss_sum  # noqa: E402
from parity.reference_optimizers import OPTIMIZERS  # noqa: E402
from support import order  # noqa: E402

AUTOCAST = {"bf16": torch.bfloat16, "fp16": torch.float16}
DOMAIN_MIXING = 5


permutation = functools.lru_cache(maxsize=2)(order.permutation)


def read_array(array):
    dtype = getattr(torch, array["dtype"])
    return torch.frombuffer(bytearray(pathlib.Path(array["path"]).read_bytes()), dtype=dtype).view(-1, *array["shape"])


def read_data(job, dtype):
    """(inputs as the model wants them, targets)."""
    if "images" in job:
        data = pathlib.Path(job["images"]).read_bytes()
        _, n, h, w = struct.unpack(">IIII", data[:16])
        pixels = torch.frombuffer(bytearray(data[16:]), dtype=torch.uint8).view(n, 1, h, w)
        labels = torch.frombuffer(bytearray(pathlib.Path(job["labels"]).read_bytes()[8:]), dtype=torch.uint8).long()
        inputs = pixels.to(dtype).div(255)  # torchvision's to_tensor
        mean, std = torch.tensor(0.25, dtype=dtype), torch.tensor(0.5, dtype=dtype)
        return inputs.sub_(mean).div_(std), labels
    if "tokens" in job:
        tokens = read_array({**job["tokens"], "shape": []}).long()
        context = job["tokens"]["context"]
        starts = range(0, (len(tokens) - 1) // context * context, context)
        return (torch.stack([tokens[i:i + context] for i in starts]), torch.stack([tokens[i + 1:i + context + 1] for i in starts]))

    def typed(values):
        return values.to(dtype) if values.is_floating_point() else values.long()
    return typed(read_array(job["inputs"])), typed(read_array(job["targets"]))


def make_optimizer(job, model):
    """Parameter groups as src/train/parameter_groups.h makes them."""
    options = dict(job["optimizer"])
    name, lr = options.pop("name"), options["lr"]
    groups = {}
    for parameter_name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        scale = next((s for pattern, s in job.get("lr_scales", {}).items() if fnmatch.fnmatchcase(parameter_name, pattern)), 1.0)
        decayed = job.get("decay_norm_and_bias", True) or parameter.dim() >= 2
        groups.setdefault((scale, decayed), []).append(parameter)
    parameters = [{"params": members, "lr": lr * scale, **({} if decayed else {"weight_decay": 0.0})}
                  for (scale, decayed), members in groups.items()]
    optimizer = OPTIMIZERS[name](parameters, fused=True, **options)
    for group in optimizer.param_groups:
        group["base_lr"] = group["lr"]
    return optimizer


def mix(job, step, inputs, targets):
    """torchvision's MixUp or CutMix with what the step's key draws: (inputs, other targets, share)."""
    if not job.get("mixup") and not job.get("cutmix"):
        return inputs, None, 1.0
    from torchvision.transforms import v2

    key = order.derive_seed(DOMAIN_MIXING, job["seed"], step, 0)
    alpha = job.get("mixup") or job["cutmix"]
    share = torch._sample_dirichlet(torch.full((2,), alpha, dtype=torch.float64), torch.Generator().manual_seed(key))[0].item()
    if job.get("mixup"):
        mixed = v2.MixUp(alpha=alpha, num_classes=10).transform(inputs, {"lam": share, "batch_size": len(inputs), "labels": targets})
        return mixed, targets.roll(1, 0), share
    height, width = inputs.shape[-2:]
    random = order.SplitMix(key + 1)
    row, column = random.below(height), random.below(width)
    half_height, half_width = int(0.5 * math.sqrt(1 - share) * height), int(0.5 * math.sqrt(1 - share) * width)
    top, bottom, left, right = max(row - half_height, 0), min(row + half_height, height), max(column - half_width, 0), min(column + half_width, width)
    own = 1.0 - (bottom - top) * (right - left) / (height * width)
    parameters = {"box": (left, top, right, bottom), "lam_adjusted": own, "batch_size": len(inputs), "labels": targets}
    return v2.CutMix(alpha=alpha, num_classes=10).transform(inputs, parameters), targets.roll(1, 0), own


class Peer:
    def __init__(self, job, rank):
        self.job, self.rank, self.world = job, rank, job["world"]
        precision = job["precision"]
        self.dtype = torch.float64 if precision == "fp64" else torch.float32
        self.plain = make_model(job["model"], job["seed"], job["args"], self.dtype)
        for name, parameter in self.plain.named_parameters():
            if any(fnmatch.fnmatchcase(name, pattern) for pattern in job.get("freeze", [])):
                parameter.requires_grad_(False)
        if job.get("channels_last"):
            self.plain.to(memory_format=torch.channels_last)
        self.model = self.plain
        if self.world > 1:
            os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(job["port"]))
            dist.init_process_group("gloo", rank=rank, world_size=self.world)
            pathlib.Path(job["out"], f"connected-{rank}").touch()
            self.model = DistributedDataParallel(self.plain, gradient_as_bucket_view=True)
        self.trained = {name: p for name, p in self.plain.named_parameters() if p.requires_grad}
        self.averages = [p.detach().clone() for p in self.trained.values()]
        self.optimizer = make_optimizer(job, self.plain)
        self.scaler = torch.amp.GradScaler("cpu", enabled=precision == "fp16")
        self.inputs, self.targets = read_data(job, self.dtype)
        self.losses, self.gradients, self.norms = [], [], []
        self.keep_gradients = True

    def window(self, step):
        count, batch = len(self.inputs), self.job["global_batch"]
        per_epoch = -(-count // batch)
        ids = permutation(count, self.job["seed"], step // per_epoch)
        return ids[step % per_epoch * batch:][:batch]

    def loss(self, cut, step):
        inputs, others, share = mix(self.job, step + 1, self.inputs[cut], self.targets[cut])
        if self.job.get("channels_last"):
            inputs = inputs.to(memory_format=torch.channels_last)
        half = AUTOCAST.get(self.job["precision"])
        with torch.autocast("cpu", dtype=half, enabled=half is not None):
            outputs = self.model(inputs)
            loss, _ = loss_sum(self.job["task"], outputs, self.targets[cut], **self.job.get("loss", {}))
            if others is None:
                return loss
            return loss * share + loss_sum(self.job["task"], outputs, others, **self.job.get("loss", {}))[0] * (1 - share)

    def step(self, step):
        job, window = self.job, self.window(step)
        begin, end = order.share(len(window), self.rank, self.world)
        targets = self.targets[torch.tensor(window)]
        count = len(window)
        if job["task"] == "language_model":
            ignored = job.get("loss", {}).get("ignore_index", -100)
            count = int((targets != ignored).sum())
        cuts = list(torch.tensor(window[begin:end]).split(job["micro_batch"]))
        self.optimizer.zero_grad(set_to_none=False)
        total = torch.zeros((), dtype=torch.float64)
        for i, cut in enumerate(cuts):
            last = i + 1 == len(cuts)
            with self.model.no_sync() if self.world > 1 and not last else contextlib.nullcontext():
                loss = self.loss(cut, step)
                self.scaler.scale(loss * (self.world / count)).backward()
            total += loss.detach().double()
        if self.world > 1:
            dist.all_reduce(total)
        self.losses.append(total.item() / count)
        if self.keep_gradients:
            self.gradients.append({name: p.grad.clone() for name, p in self.trained.items()})
        self.update(step)

    def update(self, step):
        job, parameters = self.job, list(self.trained.values())
        self.scaler.unscale_(self.optimizer)
        self.norms.append(torch.nn.utils.get_total_norm([p.grad for p in parameters], foreach=True).item())
        if job.get("clip_value"):
            torch.nn.utils.clip_grad_value_(parameters, job["clip_value"], foreach=True)
        if job.get("clip"):
            torch.nn.utils.clip_grad_norm_(parameters, job["clip"], foreach=True)
        for group in self.optimizer.param_groups:
            group["lr"] = group["base_lr"] * job["factors"][step]
        self.scaler.step(self.optimizer)
        self.scaler.update()
        if job.get("ema"):
            get_ema_multi_avg_fn(job["ema"])(self.averages, [p.detach() for p in parameters], None)

    def result(self):
        state = {name: value for name, value in self.plain.state_dict().items() if name not in tied_names(self.plain)}
        return {"losses": self.losses, "norms": self.norms, "gradients": self.gradients, "state": state,
                "averages": dict(zip(self.trained, self.averages)) if self.job.get("ema") else {}}


def tied_names(model):
    """Names under which a tensor is found again."""
    known = dict(model.named_parameters())
    return [name for name, _ in model.named_parameters(remove_duplicate=False) if name not in known]


def train(job, rank):
    torch.set_num_threads(job.get("threads", 1))
    peer = Peer(job, rank)
    peer.model.train()
    for step in range(job["steps"]):
        peer.step(step)
    return peer.result()


def main():
    job, rank = json.load(open(sys.argv[1])), int(sys.argv[2])
    torch.save(train(job, rank), f"{job['out']}/rank-{rank}.pt")
    dist.barrier()
    os._exit(0)  # the shutdown of two Gloo ranks aborts now and then, see bench/peer_ddp.py


if __name__ == "__main__":
    main()

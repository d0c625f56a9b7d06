#!/usr/bin/env python3
"""Training speed on one GPU: ResNet-50 or GPT-2 124M in gputrain, in Python eager and under torch.compile. Started by scripts/gpu_check.sh.

usage: gpu_engine.py resnet50|gpt2 --gputrain PROGRAM --work DIRECTORY [--limit 230] [--cpu]

AMP (bf16) on and off, for ResNet-50 channels_last on and off, the optimizer fused on both sides. Every side trains the same: weights of one
seed, the windows of the order contract, a summed loss over the count, AdamW, no clipping, the loss read once a step. One JSON line after each
check: {check, ok, seconds, detail} and, where a speed was measured, steps_per_s, losses, ratio (gputrain's speed over this side's). A side whose
first losses differ is "not comparable" and not ok. The peer has its batches ready in pinned memory; gputrain reads, decodes and pins them.
--cpu: small models, torch.compile without its code generator: shows that this script works, its figures mean nothing.
"""
import argparse
import contextlib
import dataclasses
import itertools
import json
import math
import pathlib
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import torch  # noqa: E402
from support import order  # noqa: E402

SEED, LR = 1, 1e-4
COMPARED = 3  # first steps whose losses both sides must share
TOLERANCE = {"fp32": 1e-4, "bf16": 2e-2}


@dataclasses.dataclass(frozen=True)
class Size:
    model: str
    args: dict
    batch: int
    batches: int  # in the data set
    steps: int
    skip: int  # not counted: kernels are chosen, compiled, caches filled
    shape: tuple = ()
    context: int = 0

    @property
    def samples(self):
        return self.batch * self.batches


def gpt(**args):
    return {"layers": "auto", "heads": "auto", "width": "auto", "dropout": 0.0, **args}


SIZES = {
    "resnet50": Size("resnet50", {"in_channels": 3, "num_classes": 1000}, batch=64, batches=4, steps=60, skip=20, shape=(3, 224, 224)),
    "gpt2": Size("gpt", gpt(size="gpt2", context=1024, vocab_size=50257), batch=8, batches=16, steps=60, skip=20, context=1024),
}
SMALL = {
    "resnet50": Size("resnet18", {"in_channels": 3, "num_classes": 10}, batch=4, batches=4, steps=4, skip=1, shape=(3, 32, 32)),
    "gpt2": Size("gpt", gpt(size="custom", layers=2, heads=2, width=32, context=16, vocab_size=64), batch=4, batches=8, steps=6, skip=2, context=16),
}


@dataclasses.dataclass(frozen=True)
class Setting:
    precision: str
    channels_last: bool

    @property
    def text(self):
        return ("AMP bf16" if self.precision == "bf16" else "AMP off (fp32)") + (", channels_last" if self.channels_last else "")


class OutOfTime(Exception):
    pass


def make_data(size, work):
    """The files that gputrain reads; the same as tensors (inputs, targets)."""
    generator = torch.Generator().manual_seed(0)
    if size.context:
        tokens = torch.randint(size.args["vocab_size"], (size.samples * size.context + 1,), generator=generator)
        (work / "inputs").write_bytes(tokens.to(torch.uint16).numpy().tobytes())
        return tokens[:-1].view(-1, size.context), tokens[1:].view(-1, size.context)
    inputs = torch.randn(size.samples, *size.shape, generator=generator)
    targets = torch.randint(size.args["num_classes"], (size.samples,), generator=generator)
    (work / "inputs").write_bytes(inputs.numpy().tobytes())
    (work / "targets").write_bytes(targets.numpy().tobytes())
    return inputs, targets


class Gputrain:
    def __init__(self, program, work, size, on_gpu):
        self.program, self.work, self.size, self.on_gpu = program, work, size, on_gpu

    def train(self, setting):
        """(losses, times of the steps' ends, what else to say)."""
        output = self.work / "out"
        shutil.rmtree(output, ignore_errors=True)
        spec = self.work / "spec.yaml"
        spec.write_text(self.spec(setting, output))
        done = subprocess.run([self.program, "launch", spec], capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"exit {done.returncode}: {done.stderr[-1200:]}")
        records = [record for record in map(json.loads, (output / "events.jsonl").read_text().splitlines()) if record["kind"] == "step"]
        shutil.rmtree(output)  # its checkpoint is large
        waits = sum(record["data_wait_s"] for record in records[self.size.skip:])
        # By the rank's clock, as the peer's: `ts` is when the controller wrote the record, and it may write several at once.
        times = list(itertools.accumulate(record["step_s"] for record in records))
        return [record["loss"] for record in records], times, f"waited {waits:.3f} s for data"

    def spec(self, setting, output):
        size = self.size
        source = (f"{{format: tokens, path: {self.work}/inputs, dtype: uint16, context: {size.context}}}" if size.context else
                  f"{{format: raw, inputs: {{path: {self.work}/inputs, shape: {list(size.shape)}, dtype: float32}}, "
                  f"targets: {{path: {self.work}/targets, shape: [], dtype: int64}}}}")
        return f"""\
name: gpu-engine
output: {output}
seed: {SEED}
launch: {{nproc_per_node: 1, backend: {"nccl" if self.on_gpu else "gloo"}, omp_threads: 1}}
model: {{name: {size.model}, args: {json.dumps(size.args)}}}
task: {"language_model" if size.context else "classification"}
data: {{train: {source}, tail: drop, workers: {4 if self.on_gpu else 1}}}
train: {{max_steps: {size.steps}, global_batch: {size.batch}, precision: {setting.precision}, channels_last: {str(setting.channels_last).lower()}}}
optimizer: {{name: adamw, lr: {LR}, weight_decay: 0.01}}
checkpoint: {{every: never}}
log: {{every: 1 step}}
"""


def make_twin(size):
    """As gputrain draws it: on the CPU, from the seed."""
    torch.manual_seed(SEED)
    if size.context:
        from parity.reference_gpt import GPT
        return GPT(**size.args)
    from parity.reference_models import TWINS
    return TWINS[size.model](**size.args)


class Python:
    def __init__(self, data, size, on_gpu, backend=None):
        """`backend` of torch.compile; None: eager."""
        self.data, self.size, self.on_gpu, self.backend = data, size, on_gpu, backend
        self.device = "cuda" if on_gpu else "cpu"

    def batches(self, setting):
        """Those of an epoch in order, ready on the host."""
        made, epochs = [], -(-self.size.steps // self.size.batches)
        for epoch in range(epochs):
            ids = torch.tensor(order.permutation(self.size.samples, SEED, epoch))
            for window in ids.split(self.size.batch):
                made.append(tuple(self.pinned(tensor[window]) for tensor in self.data))
        return made[:self.size.steps]

    def pinned(self, tensor):
        return tensor.pin_memory() if self.on_gpu else tensor

    def train(self, setting):
        """(losses, times of the steps' ends, what else to say)."""
        batches = self.batches(setting)
        layout = torch.channels_last if setting.channels_last else torch.preserve_format
        model = make_twin(self.size).to(self.device, memory_format=layout).train()
        optimizer = torch.optim.AdamW(model.parameters(), lr=LR, weight_decay=0.01, fused=True)
        forward = torch.compile(model, backend=self.backend) if self.backend else model
        losses, times = [], []
        for inputs, targets in batches:
            inputs = inputs.to(self.device, non_blocking=True)
            if setting.channels_last:
                inputs = inputs.contiguous(memory_format=layout)
            targets = targets.to(self.device, non_blocking=True)
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast(self.device, torch.bfloat16, enabled=setting.precision == "bf16"):
                logits = forward(inputs)
                loss = torch.nn.functional.cross_entropy(logits.flatten(0, -2), targets.flatten(), reduction="sum") / targets.numel()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            times.append(time.time())
        return losses, times, ""


def no_compiler():
    """Why torch.compile has nothing to generate code with, or None."""
    if not any(map(shutil.which, ("gcc", "cc", "clang"))):
        return "no C compiler is found"
    try:
        import triton  # noqa: F401
    except ImportError:
        return "triton is not installed"
    return None


def losses_differ(found, reference, precision):
    if len(found) != len(reference):
        return f"{len(found)} steps against {len(reference)}"
    for i, (a, b) in enumerate(zip(found[:COMPARED], reference)):
        if not abs(a - b) <= TOLERANCE[precision] * max(1, abs(b)):
            return f"loss of step {i + 1} is {a}, gputrain's {b}"
    return None


class Report:
    """One JSON line a check."""

    def __init__(self, size, limit):
        self.size, self.begun, self.limit, self.failed = size, time.monotonic(), limit, False
        self.reference = {}  # of each setting: gputrain's losses and speed

    def line(self, name, ok, detail, **more):
        self.failed = self.failed or not ok
        print(json.dumps({"check": name, "ok": ok, "seconds": round(time.monotonic() - self.begun, 1), "detail": detail[-1500:], **more}), flush=True)

    def measure(self, side, setting, train):
        """Trains within the time that is left; True when this side is gputrain's equal in what it does."""
        name = f"{self.size.model}, {setting.text}: {side}"
        try:
            with self.alarm():
                losses, times, detail = train(setting)
        except OutOfTime:
            return self.line(name, False, f"did not end within this part's {self.limit:.0f} s")
        except Exception as problem:  # whatever it is, the other checks are still worth having
            return self.line(name, False, f"{type(problem).__name__}: {problem}")
        finally:
            if torch.cuda.is_available():
                torch.cuda.empty_cache()
        speed = (len(times) - 1 - self.size.skip) / (times[-1] - times[self.size.skip])
        self.judge(name, setting, side, losses, speed, detail)

    def judge(self, name, setting, side, losses, speed, detail):
        figures = {"steps_per_s": round(speed, 3), "losses": losses[:COMPARED] + losses[-1:]}
        if not all(map(math.isfinite, losses)):
            return self.line(name, False, "a loss is not finite", **figures)
        if side == "gputrain":
            self.reference[setting] = (losses, speed)
            return self.line(name, True, detail, **figures)
        if setting not in self.reference:
            return self.line(name, False, "not comparable: gputrain did not train", **figures)
        reference, our_speed = self.reference[setting]
        if problem := losses_differ(losses, reference, setting.precision):
            return self.line(name, False, f"not comparable: {problem}", **figures)
        self.line(name, True, detail, ratio=round(our_speed / speed, 3), **figures)

    @contextlib.contextmanager
    def alarm(self):
        def stop(*_):
            raise OutOfTime
        before = signal.signal(signal.SIGALRM, stop)
        signal.setitimer(signal.ITIMER_REAL, max(0.001, self.limit - (time.monotonic() - self.begun)))
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)


def run(name, program, work, cpu, limit):
    size = (SMALL if cpu else SIZES)[name]
    report = Report(size, limit)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False  # fp32 means fp32
    if cpu:
        torch.set_num_threads(1)
    data = make_data(size, work)
    settings = [Setting(precision, last) for last in ([False, True] if size.shape else [False]) for precision in ("bf16", "fp32")]
    ours = Gputrain(program, work, size, not cpu)
    eager = Python(data, size, not cpu)
    for side, trainer in (("gputrain", ours), ("Python eager", eager)):
        for setting in settings:
            report.measure(side, setting, trainer.train)
    # Compiling takes most of the time: only for the layout that a user of it would choose.
    backend = "aot_eager" if cpu else "inductor"
    for setting in [setting for setting in settings if setting.channels_last == bool(size.shape)]:
        side = f"torch.compile ({backend})"
        if problem := no_compiler():
            report.line(f"{size.model}, {setting.text}: {side}", True, f"n/a: {problem}")
        else:
            torch.compiler.reset()
            report.measure(side, setting, Python(data, size, not cpu, backend).train)
    return 1 if report.failed else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=list(SIZES))
    parser.add_argument("--gputrain", required=True)
    parser.add_argument("--work", required=True, type=pathlib.Path)
    parser.add_argument("--limit", default=230, type=float, help="seconds")
    parser.add_argument("--cpu", action="store_true")
    arguments = parser.parse_args()
    return run(arguments.name, arguments.gputrain, arguments.work, arguments.cpu, arguments.limit)


if __name__ == "__main__":
    sys.exit(main())

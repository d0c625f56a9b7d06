#!/usr/bin/env python3
"""bench/engine: steps/s against torchrun + Python DDP, the optimizer's step, and what the training loop adds to a bare one.

usage: ninja -C build gputrain gputrain-worker bench
       bench/engine.py --python PEERS_PYTHON [--build build] [--repeat 5] [--out bench/results/engine.json] [--only NAME ...] [--tiny]

Both sides do the same: sample ids, initial weights, threads, fp32, no clipping, one record a step. Before a ratio is printed that is shown
(bench/comparable.py); otherwise "not comparable", exit 1. Repetitions alternate. A missed budget (design section 8) prints MISSED.

mlp_1 ... gpt_2     steps/s on 1 and 2 ranks, each side as its launcher runs it
*_malloc            `gputrain launch` gives its ranks glibc settings that keep freed memory and take huge pages, and torchrun does not; here the
                    peer has them too: what is left is the engine's own difference. Only where --only asks for them
adamw_step          AdamW on GPT-2's 148 tensors of 124 million parameters, as a rank runs it, against torch::optim::AdamW and Python's fused one
                    in programs of their own
loop_overhead       what a rank's loop adds to a bare C++ loop of the MLP (bench/loop_overhead.cpp)
"""
import contextlib
import json
import os
import subprocess
import sys

import jobs
import table
from comparable import check_runs, ids_differ, losses_differ, refuse
from sides import Gputrain, Peer, Wish

MALLOC = {"MALLOC_TRIM_THRESHOLD_": str(2**63 - 1), "MALLOC_MMAP_THRESHOLD_": str(32 << 20), "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
BUDGETS = {"mlp_1": 1.6, "mlp_2": 1.0, "resnet18_1": 1.0, "resnet18_2": 1.0}
STEPS = {"mlp_1": (1200, 200), "mlp_2": (800, 100), "resnet18_1": (25, 5), "resnet18_2": (25, 5), "gpt_1": (12, 2), "gpt_2": (12, 2)}  # and those not counted
GPT2 = {"size": "gpt2", "layers": "auto", "heads": "auto", "width": "auto", "context": 1024, "vocab_size": 50257, "dropout": 0.0}


def throughput(name, environment=None):
    job, ranks = name.split("_")[0], int(name.split("_")[1])

    def measure(ground, repeat):
        steps, skip = (12, 2) if ground.tiny else STEPS[f"{job}_{ranks}"]
        wish = Wish(job, ranks, steps, environment=environment or {})
        raw = table.alternate(repeat, lambda side: side(ground, "run", wish).start().finish().steps_per_s(skip), (Gputrain, Peer))
        return [table.Row(name, "steps/s", raw, "more", BUDGETS.get(name))]
    return measure


class Stepper:
    """A program that takes optimizer steps on request (bench/optimizer_step.cpp has the protocol)."""

    def __init__(self, command, environment):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env={**os.environ, "OMP_NUM_THREADS": str(jobs.THREADS), "CUDA_VISIBLE_DEVICES": "", **environment})
        self.facts = self.read()

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.process.args[:2]} ended early with {self.process.wait()}")
        return json.loads(line)

    def seconds(self, steps):
        """Of one step."""
        self.process.stdin.write(f"{steps}\n")
        self.process.stdin.flush()
        answer = self.read()
        self.sums = answer["sums"]
        return answer["seconds"] / steps

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def sums_differ(ours, theirs, tolerance):
    for i, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        if not abs(a - b) <= tolerance * max(1, abs(b)):
            return f"sum of tensor {i}: {a} against {b}"
    return None


def optimizer_step(name, peer_environment, budget=None):
    return lambda ground, repeat: adamw_step(ground, repeat, name, peer_environment, budget)


def adamw_step(ground, repeat, name, peer_environment, budget):
    """All three on weights of the same seed with the same gradients; each takes `steps` steps in turn, after one that allocates."""
    args = jobs.TINY["gpt"].args if ground.tiny else GPT2
    rest = [json.dumps(args), str(jobs.SEED), str(jobs.LR), str(jobs.THREADS)]
    program, steps = str(ground.build / "bench_optimizer"), 2
    with contextlib.ExitStack() as stack:
        sides = [stack.enter_context(contextlib.closing(Stepper(command + rest, environment))) for command, environment in
                 (([program, "gputrain"], MALLOC), ([program, "torch_optim"], peer_environment),
                  ([ground.python, str(jobs.ROOT / "bench/peer_optimizer.py")], peer_environment))]
        ours, torch_optim, python = sides
        for side in sides[1:]:
            # The sums too: the first weights are equal.
            refuse(None if ours.facts == side.facts else "tensors, parameters, threads, dtype or first weights", name)
        for side in sides:
            side.seconds(1)
        raw = [[], [], []]
        for _ in range(repeat):
            for values, side in zip(raw, sides):
                values.append(side.seconds(steps))
        # The same operation in Python: equal to the bit. torch::optim's is another order of roundings.
        refuse(sums_differ(ours.sums, python.sums, 0), f"{name}: against Python")
        refuse(sums_differ(ours.sums, torch_optim.sums, 1e-4), f"{name}: against torch::optim")
    print(f"comparable: {ours.facts['tensors']} tensors of {ours.facts['parameters']} parameters, sums after {2 * repeat + 1} steps equal", flush=True)
    return [table.Row(name, "s", {"gputrain": raw[0], "peer": raw[1]}, "less", budget, "torch::optim::AdamW"),
            table.Row(f"{name}_python", "s", {"gputrain": raw[0], "peer": raw[2]}, "less", None, "torch.optim.AdamW(fused=True)")]


def run_loop(ground, plan, chunk, skip):
    path = ground.work / "loop-plan.json"
    path.write_text(json.dumps(plan))
    environment = {**os.environ, "OMP_NUM_THREADS": str(jobs.THREADS), "CUDA_VISIBLE_DEVICES": "", **MALLOC}
    done = subprocess.run([str(ground.build / "bench_loop"), str(path), str(chunk), str(skip)], env=environment, capture_output=True, text=True, timeout=120)
    if done.returncode:
        raise SystemExit(f"bench_loop: exit {done.returncode}\n{done.stderr[-3000:]}")
    return json.loads(done.stdout)


def loop_overhead(ground, repeat):
    """In one process, a chunk of steps each in turn; short chunks and many, for the difference looked for is small."""
    plan = Gputrain(ground, "loop", Wish("mlp", 1, 2)).start().finish().plan()
    chunk, skip, chunks = (30, 10, repeat) if ground.tiny else (200, 20, 5 * repeat)
    plan["output"] = str(ground.work / "loop-out")
    plan["train"]["max_steps"] = chunks * chunk
    found = run_loop(ground, plan, chunk, skip)
    steps = ground.jobs["mlp"].check_steps
    refuse(None if (found["threads"], found["dtype"], found["clip"]) == (jobs.THREADS, "float32", 0) else "settings", "loop_overhead")
    refuse(ids_differ(found["ids"][:steps], ground.epochs, ground.jobs["mlp"].global_batch), "loop_overhead")
    refuse(losses_differ(found["losses"]["gputrain"], found["losses"]["bare"]), "loop_overhead")
    print(f"comparable: all {len(found['losses']['bare'])} losses of both loops within 1e-4, the same line logged a step", flush=True)
    return [table.Row("loop_overhead", "steps/s", {"gputrain": found["gputrain"], "peer": found["bare"]}, "overhead", 0.02, "a bare C++ loop")]


DEFAULT = {**{name: throughput(name) for name in STEPS}, "adamw_step": optimizer_step("adamw_step", {}, budget=5.0), "loop_overhead": loop_overhead}
MEASURES = {**DEFAULT, **{f"{name}_malloc": throughput(f"{name}_malloc", MALLOC) for name in STEPS},
            "adamw_step_malloc": optimizer_step("adamw_step_malloc", MALLOC)}


def prepare(ground, names):
    check_runs(ground, sorted({(name.split("_")[0], int(name.split("_")[1])) for name in names if name.split("_")[0] in jobs.JOBS}))


if __name__ == "__main__":
    sys.exit(table.main(__doc__, MEASURES, prepare, list(DEFAULT)))

#!/usr/bin/env python3
"""bench/startup: launch to first step, kill -9 to next step, steps/s, peak RSS, against torchrun + Python DDP of the same torch.

usage: bench/startup.py --python PEERS_PYTHON [--build build] [--repeat 5] [--out bench/results/startup.json] [--only NAME ...]

Both sides are given the same: sample ids, initial weights, threads, fp32, no clipping, one record a step. Before a ratio is printed that is
shown for 20 steps: one record each, our ranks' traced ids are those that the peer is given, and the losses agree to 1e-4 (the first to
1e-6). Otherwise "not comparable", exit 1. Repetitions alternate. A missed budget (design section 8) prints MISSED.

Each side runs as its launcher runs it. `gputrain launch` gives its ranks glibc settings that keep freed memory and torchrun does not; the
rows *_malloc give them to the peer too: what is left is the engine's own difference.
"""
import argparse
import contextlib
import datetime
import json
import os
import pathlib
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))
from support import order  # noqa: E402

SAMPLES, SEED, LR = 2048, 1, 1e-3
MODELS = {
    "mlp": {"shape": [784], "global_batch": 64, "spec": "{name: mlp, args: {in_features: 784, hidden: [256, 256], num_classes: 10}}"},
    "resnet18": {"shape": [3, 32, 32], "global_batch": 32, "spec": "{name: resnet18, args: {num_classes: 10}}"},
}
BUDGETS = {"first_step": 5.0, "kill_to_next_step": 5.0, "mlp_1": 1.6, "mlp_2": 1.0, "resnet18_1": 1.0, "resnet18_2": 1.0, "rss": 0.6}
MALLOC = {"MALLOC_TRIM_THRESHOLD_": str(2**63 - 1), "MALLOC_MMAP_THRESHOLD_": str(32 << 20)}
TIMEOUT = 60


def make_data(folder, python):
    """Raw arrays and the ids of each epoch, for both sides."""
    for name, model in MODELS.items():
        subprocess.run([python, "-c", f"""
import numpy
r = numpy.random.default_rng(0)
r.standard_normal(({SAMPLES}, *{model['shape']}), dtype=numpy.float32).tofile(r"{folder}/{name}.inputs")
r.integers(0, 10, {SAMPLES}).astype(numpy.int64).tofile(r"{folder}/{name}.targets")
"""], check=True)
    epochs = [order.permutation(SAMPLES, SEED, epoch) for epoch in range(40)]
    (folder / "ids.json").write_text(json.dumps(epochs))
    subprocess.run([python, "-c", f"import json, numpy; numpy.save(r'{folder}/ids.npy', numpy.array(json.load(open(r'{folder}/ids.json')), dtype=numpy.int64))"], check=True)
    return epochs


class Side:
    """One run of one side in a folder of its own: Popen, then the times of its steps."""

    def __init__(self, folder, data, model, ranks, steps, save_every=0, environment=None):
        self.environment = environment or {}
        self.folder, self.data, self.model, self.ranks, self.steps, self.save_every = folder, data, model, ranks, steps, save_every
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)

    def start(self, trace=False):
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", **self.environment}
        if trace:
            environment["GPUTRAIN_INTERNAL_TRACE"] = str(self.folder / "trace")
        self.begun = time.time()
        self.process = subprocess.Popen(self.command(), env=environment, stdout=subprocess.DEVNULL, stderr=open(self.folder / "stderr", "w"),
                                        start_new_session=True)
        return self

    def finish(self):
        try:
            code = self.process.wait(TIMEOUT)
        except subprocess.TimeoutExpired:
            self.kill()
            clean_up(self)
            raise SystemExit(f"{self.folder.name}: still running after {TIMEOUT} s")
        if code:
            raise SystemExit(f"{self.folder.name}: exit {code}\n{(self.folder / 'stderr').read_text()[-3000:]}")
        return self

    def kill(self):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def ranks_pids(self):
        """Pids of the training processes among this side's, in the order of their ranks."""
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and self.is_rank((entry / "cmdline").read_bytes().decode(errors="replace")):
                    if str(self.folder).encode() in (entry / "environ").read_bytes() + (entry / "cmdline").read_bytes() or self.descends(int(entry.name)):
                        rank = re.search(rb"(?:^|\0)RANK=(\d+)", (entry / "environ").read_bytes())
                        found.append((int(rank[1]), int(entry.name)))
            except (OSError, TypeError):  # it ended, or has not become a rank yet
                continue
        return [pid for _, pid in sorted(found)]

    def peak_rss(self):
        """MiB of the largest rank."""
        return max(int(re.search(r"VmHWM:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text())[1]) for pid in self.ranks_pids()) / 1024

    def descends(self, pid):
        while pid > 1:
            if pid == self.process.pid:
                return True
            pid = int(pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
        return False


class Gputrain(Side):
    name = "gputrain"

    def command(self):
        model = MODELS[self.model]
        spec = self.folder / "spec.yaml"
        spec.write_text(f"""\
name: bench
output: {self.folder}/out
seed: {SEED}
launch: {{nproc_per_node: {self.ranks}, omp_threads: 1}}
model: {model['spec']}
data:
  train: {{format: raw, inputs: {{path: {self.data}/{self.model}.inputs, shape: {model['shape']}, dtype: float32}},
          targets: {{path: {self.data}/{self.model}.targets, shape: [], dtype: int64}}}}
  tail: drop
train: {{max_steps: {self.steps}, global_batch: {model['global_batch']}}}
optimizer: {{name: adamw, lr: {LR}, weight_decay: 0.01}}
checkpoint: {{every: {f'{self.save_every} steps' if self.save_every else 'never'}}}
""")
        return [str(BUILD / "gputrain"), "launch", str(spec)]

    def records(self):
        path = self.folder / "out/events.jsonl"
        lines = [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")] if path.exists() else []
        return [{"step": r["step"], "loss": r["loss"], "time": datetime.datetime.fromisoformat(r["ts"]).timestamp()} for r in lines if r["kind"] == "step"]

    def is_rank(self, command):
        return "gputrain-worker" in command


class Peer(Side):
    name = "torchrun + DDP"

    def command(self):
        model = MODELS[self.model]
        job = {"model": self.model, "seed": SEED, "lr": LR, "threads": 1, "inputs": f"{self.data}/{self.model}.inputs", "shape": model["shape"],
               "targets": f"{self.data}/{self.model}.targets", "ids": f"{self.data}/ids.npy", "global_batch": model["global_batch"], "steps": self.steps,
               "log": f"{self.folder}/log.jsonl", "save": f"{self.folder}/save.pt", "save_every": self.save_every}
        (self.folder / "job.json").write_text(json.dumps(job))
        return [PYTHON, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(self.ranks), "--max-restarts", "1",
                str(ROOT / "bench/peer_ddp.py"), str(self.folder / "job.json")]

    def records(self):
        path = self.folder / "log.jsonl"
        return [json.loads(line) for line in (path.read_text().splitlines() if path.exists() else []) if line.endswith("}")]

    def is_rank(self, command):
        return "peer_ddp.py" in command and "torch.distributed.run" not in command


def wait_for_step(side, step):
    deadline = time.time() + TIMEOUT
    while time.time() < deadline:
        if any(record["step"] >= step for record in side.records()):
            return
        if side.process.poll() is not None:
            raise SystemExit(f"{side.folder.name} ended early\n{(side.folder / 'stderr').read_text()[-3000:]}")
        time.sleep(0.005)
    side.kill()
    clean_up(side)
    raise SystemExit(f"{side.folder.name}: step {step} not reached in {TIMEOUT} s")


def check_comparable(work, data, epochs, model, ranks):
    """Both sides, 20 steps: same ids, same losses."""
    ours = Gputrain(work / "check-ours", data, model, ranks, 20).start(trace=True).finish()
    theirs = Peer(work / "check-peer", data, model, ranks, 20).start().finish()
    batch = MODELS[model]["global_batch"]
    if [r["step"] for r in ours.records()] != list(range(1, 21)) or [r["step"] for r in theirs.records()] != list(range(1, 21)):
        return "not one record for each of 20 steps"
    for rank in range(ranks):
        trace = [json.loads(line) for line in (ours.folder / f"trace/attempt-1-rank-{rank}.jsonl").read_text().splitlines()]
        if [record["step"] for record in trace] != list(range(1, 21)):
            return f"rank {rank} has not traced 20 steps"
        for record in trace:
            window = epochs[0][(record["step"] - 1) * batch:record["step"] * batch]
            begin, end = order.share(batch, rank, ranks)
            if record["ids"] != window[begin:end]:
                return f"sample ids differ at step {record['step']}"
    for a, b in zip(ours.records(), theirs.records()):
        if abs(a["loss"] - b["loss"]) > (1e-6 if a["step"] == 1 else 1e-4) * max(1, abs(b["loss"])):
            return f"loss of step {a['step']}: {a['loss']} against {b['loss']}"
    return None


def first_step(side_class, work, data):
    side = side_class(work / "run", data, "mlp", 2, 3).start().finish()
    return side.records()[0]["time"] - side.begun


def kill_to_next_step(side_class, work, data):
    """kill -9 of rank 1 after a save; the time until a step that follows the restart is done."""
    # By default torchrun (2.11) keeps one store over restarts, ranks read the Gloo addresses of the dead attempt in it, and no restart ever
    # connects. With a store for each attempt it does, so this is what a user who has found that out would set.
    own_store = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"} if side_class is Peer else {}
    side = side_class(work / "run", data, "mlp", 2, 100000, save_every=50, environment=own_store).start()
    wait_for_step(side, 120)
    victim = side.ranks_pids()[1]
    killed = time.time()
    os.kill(victim, signal.SIGKILL)
    deadline = killed + TIMEOUT
    while time.time() < deadline:
        records = side.records()
        restarted = [i for i in range(1, len(records)) if records[i]["step"] <= records[i - 1]["step"]]
        if restarted:
            side.kill()
            clean_up(side)
            return records[restarted[-1]]["time"] - killed
        time.sleep(0.005)
    side.kill()
    clean_up(side)
    raise SystemExit(f"{side.folder.name}: no step within {TIMEOUT} s of the kill\n{(side.folder / 'stderr').read_text()[-3000:]}")


def clean_up(side):
    for pid in side.ranks_pids():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def throughput(model, ranks, steps, skip, environment=None):
    def measure(side_class, work, data):
        side = side_class(work / "run", data, model, ranks, steps, environment=environment).start().finish()
        records = side.records()
        return (records[-1]["step"] - records[skip]["step"]) / (records[-1]["time"] - records[skip]["time"])
    return measure


def rss(side_class, work, data):
    side = side_class(work / "run", data, "mlp", 2, 100000).start()
    wait_for_step(side, 200)
    peak = side.peak_rss()
    side.kill()
    clean_up(side)
    return peak


MEASURES = {  # name: (function, unit, larger is better)
    "first_step": (first_step, "s", False),
    "kill_to_next_step": (kill_to_next_step, "s", False),
    "mlp_1": (throughput("mlp", 1, 1200, 200), "steps/s", True),
    "mlp_2": (throughput("mlp", 2, 800, 100), "steps/s", True),
    "resnet18_1": (throughput("resnet18", 1, 25, 5), "steps/s", True),
    "resnet18_2": (throughput("resnet18", 2, 25, 5), "steps/s", True),
    "rss": (rss, "MiB", False),
    "mlp_2_malloc": (throughput("mlp", 2, 800, 100, MALLOC), "steps/s", True),
    "resnet18_1_malloc": (throughput("resnet18", 1, 25, 5, MALLOC), "steps/s", True),
    "resnet18_2_malloc": (throughput("resnet18", 2, 25, 5, MALLOC), "steps/s", True),
}


def compare(name, work, data, repeat):
    function, unit, larger = MEASURES[name]
    raw = {"gputrain": [], "peer": []}
    for _ in range(repeat):  # alternating, so that drift of the machine meets both
        raw["gputrain"].append(function(Gputrain, work, data))
        raw["peer"].append(function(Peer, work, data))
    ours, theirs = statistics.median(raw["gputrain"]), statistics.median(raw["peer"])
    ratio = ours / theirs if larger or name == "rss" else theirs / ours
    budget = BUDGETS.get(name)
    met = budget is None or (ratio <= budget if name == "rss" else ratio >= budget)
    spread = {side: [min(values), max(values)] for side, values in raw.items()}
    against = "no budget" if budget is None else f"budget {'<=' if name == 'rss' else '>='} {budget}"
    print(f"{name:18} gputrain {ours:9.3f} [{spread['gputrain'][0]:.3f} .. {spread['gputrain'][1]:.3f}]  peer {theirs:9.3f} "
          f"[{spread['peer'][0]:.3f} .. {spread['peer'][1]:.3f}] {unit:8} ratio {ratio:5.2f} ({against})  {'' if met else 'MISSED'}", flush=True)
    return {"unit": unit, "raw": raw, "median": {"gputrain": ours, "peer": theirs}, "ratio": ratio, "budget": budget, "met": met}


def machine():
    """What the figures belong to."""
    git = subprocess.run(["git", "-C", str(ROOT), "describe", "--always", "--dirty"], capture_output=True, text=True)
    torch = subprocess.run([PYTHON, "-c", "import torch; print(torch.__version__)"], capture_output=True, text=True, check=True)
    model = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    return {"commit": git.stdout.strip(), "torch": torch.stdout.strip(), "cores": len(os.sched_getaffinity(0)), "cpu": model[1] if model else "",
            "date": datetime.date.today().isoformat()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=ROOT / "build", type=pathlib.Path)
    parser.add_argument("--python", required=True)
    parser.add_argument("--repeat", default=5, type=int)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--only", nargs="*", default=list(MEASURES))
    arguments = parser.parse_args()
    global BUILD, PYTHON
    BUILD, PYTHON = arguments.build.resolve(), arguments.python
    with tempfile.TemporaryDirectory(prefix="gputrain-bench-") as folder:
        work, data = pathlib.Path(folder), pathlib.Path(folder) / "data"
        data.mkdir()
        epochs = make_data(data, PYTHON)
        for model, ranks in (("mlp", 1), ("mlp", 2), ("resnet18", 1), ("resnet18", 2)):
            if problem := check_comparable(work, data, epochs, model, ranks):
                print(f"not comparable: {model} on {ranks} rank(s): {problem}")
                return 1
        print("comparable: sample ids equal, losses of 20 steps within 1e-4 (the first within 1e-6); fp32, 1 thread, no clipping, one record a step")
        results = {"machine": machine()}
        for name in arguments.only:
            results[name] = compare(name, work, data, arguments.repeat)
            if arguments.out:  # after each, so that what was measured outlives a failure of the next
                arguments.out.parent.mkdir(parents=True, exist_ok=True)
                arguments.out.write_text(json.dumps(results, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Both sides of a comparison as processes: gputrain launch, and torchrun with bench/peer_ddp.py. Their steps, ranks and memory."""
import contextlib
import dataclasses
import datetime
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time

import jobs

TIMEOUT = 60


@dataclasses.dataclass
class Ground:
    """What a bench stands on."""
    build: pathlib.Path
    python: str  # of the peers
    jobs: dict
    work: pathlib.Path  # emptied at the end
    tiny: bool = False
    epochs: list = dataclasses.field(default_factory=list)  # sample ids of each epoch

    @property
    def data(self):
        return self.work / "data"


@dataclasses.dataclass
class Wish:
    """What a run shall do."""
    job: str
    ranks: int
    steps: int
    save_every: int = 0
    environment: dict = dataclasses.field(default_factory=dict)
    trace: bool = False
    spec: str = ""  # further lines of gputrain's
    first_weights: str = ""  # where the peer writes its


class Side:
    """One run of one side in a folder of its own: Popen, then the times of its steps."""

    def __init__(self, ground, folder, wish):
        self.ground, self.folder, self.wish, self.job = ground, ground.work / folder, wish, ground.jobs[wish.job]
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)

    def start(self):
        environment = {**os.environ, "OMP_NUM_THREADS": str(jobs.THREADS), "CUDA_VISIBLE_DEVICES": "", **self.wish.environment}
        if self.wish.trace:
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
            raise SystemExit(f"{self.folder.name}: still running after {TIMEOUT} s")
        if code:
            raise SystemExit(f"{self.folder.name}: exit {code}\n{self.errors()}")
        return self

    def errors(self):
        return (self.folder / "stderr").read_text()[-3000:]

    def kill(self):
        """The launcher, and the ranks that it can no longer end."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        for pid in self.ranks_pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def wait_for_step(self, step):
        deadline = time.time() + TIMEOUT
        while time.time() < deadline:
            if any(record["step"] >= step for record in self.records()):
                return
            if self.process.poll() is not None:
                raise SystemExit(f"{self.folder.name} ended early\n{self.errors()}")
            time.sleep(0.005)
        self.kill()
        raise SystemExit(f"{self.folder.name}: step {step} not reached in {TIMEOUT} s")

    def steps_per_s(self, skip):
        records = self.records()
        return (records[-1]["step"] - records[skip]["step"]) / (records[-1]["time"] - records[skip]["time"])

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
        wish, data = self.wish, self.ground.data
        spec = self.folder / "spec.yaml"
        spec.write_text(f"""\
name: bench
output: {self.folder}/out
seed: {jobs.SEED}
launch: {{nproc_per_node: {wish.ranks}, omp_threads: {jobs.THREADS}}}
model: {{name: {self.job.model}, args: {json.dumps(self.job.args)}}}
task: {self.job.task}
data:
  train: {self.job.data_spec(data / f"{wish.job}.inputs", data / f"{wish.job}.targets")}
  tail: drop
train: {{max_steps: {wish.steps}, global_batch: {self.job.global_batch}}}
optimizer: {{name: adamw, lr: {jobs.LR}, weight_decay: 0.01}}
checkpoint: {{every: {f'{wish.save_every} steps' if wish.save_every else 'never'}}}
{wish.spec}
""")
        return [str(self.ground.build / "gputrain"), "launch", str(spec)]

    def lines(self):
        path = self.folder / "out/events.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")] if path.exists() else []

    def records(self):
        return [{"step": r["step"], "loss": r["loss"], "time": datetime.datetime.fromisoformat(r["ts"]).timestamp()} for r in self.lines() if r["kind"] == "step"]

    def plan(self):
        return json.loads((self.folder / "out/plan.json").read_text())

    def settings(self):
        plan, start = self.plan(), next(line for line in self.lines() if line["kind"] == "start")
        return {"ranks": start["world_size"], "threads": plan["launch"]["omp_threads"], "parameters": start["parameters"],
                "dtype": {"fp32": "float32"}[plan["train"]["precision"]], "clip": plan["train"]["clip_grad_norm"] or plan["train"]["clip_grad_value"]}

    def is_rank(self, command):
        return "gputrain-worker" in command


class Peer(Side):
    name = "torchrun + DDP"

    def command(self):
        wish, data, job = self.wish, self.ground.data, self.job
        fields = {"model": job.model, "args": job.args, "seed": jobs.SEED, "lr": jobs.LR, "threads": jobs.THREADS, "inputs": str(data / f"{wish.job}.inputs"),
                  "targets": str(data / f"{wish.job}.targets"), "shape": job.shape, "context": job.context, "ids": str(data / "ids.npy"),
                  "global_batch": job.global_batch, "steps": wish.steps, "log": f"{self.folder}/log.jsonl", "save": f"{self.folder}/save.pt",
                  "save_every": wish.save_every, "first_weights": wish.first_weights}
        (self.folder / "job.json").write_text(json.dumps(fields))
        return [self.ground.python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(wish.ranks), "--max-restarts", "1",
                str(jobs.ROOT / "bench/peer_ddp.py"), str(self.folder / "job.json")]

    def lines(self):
        path = self.folder / "log.jsonl"
        return [json.loads(line) for line in (path.read_text().splitlines() if path.exists() else []) if line.endswith("}")]

    def records(self):
        return [line for line in self.lines() if "step" in line]

    def settings(self):
        return next(line["settings"] for line in self.lines() if "settings" in line)

    def is_rank(self, command):
        return "peer_ddp.py" in command and "torch.distributed.run" not in command

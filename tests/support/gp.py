"""Drives the real programs for the tests: run, watch, inspect what they leave. Standard library only."""
import hashlib
import json
import os
import pathlib
import random
import signal
import struct
import subprocess
import time
import uuid

BUILD = pathlib.Path(os.environ["GPUTRAIN_BUILD"])
GPUTRAIN = str(BUILD / "gputrain")
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
MARK = "GP_TEST_MARK"  # in the environment of everything a test starts: what is left is found by it


class Job:
    """One started command. `stop()` is called by finish(); a test never leaves a process behind."""

    def __init__(self, *args, env=None, cwd=None, **popen):
        self.mark = uuid.uuid4().hex
        self.started = time.monotonic()
        environment = {k: v for k, v in os.environ.items() if not k.startswith("GPUTRAIN_") or k == "GPUTRAIN_BUILD"}
        environment.update({MARK: self.mark, "OMP_NUM_THREADS": "1", **(env or {})})
        self.process = subprocess.Popen([str(a) for a in args], env=environment, cwd=cwd, text=True, start_new_session=True,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **popen)

    def finish(self, timeout=60):
        """Waits. A timeout is a failure of the test, after everything was killed."""
        try:
            self.out, self.err = self.process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            left = self.left_over()
            self.kill_everything()
            self.out, self.err = self.process.communicate()
            raise AssertionError(f"still running after {timeout} s; processes {left}\n--- stdout\n{self.out}\n--- stderr\n{self.err}")
        self.seconds = time.monotonic() - self.started
        self.code = self.process.returncode if self.process.returncode >= 0 else 128 - self.process.returncode
        return self

    def left_over(self):
        """Processes that carry this job's mark: {pid: command line}."""
        found = {}
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                if f"{MARK}={self.mark}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                    if (entry / "stat").read_text().rsplit(")", 1)[1].split()[0] != "Z":
                        found[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except (OSError, IndexError):
                continue
        return found

    def wait_for_nothing_left(self, seconds=3.0):
        deadline = time.monotonic() + seconds
        while (left := self.left_over()) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert not left, f"processes left behind: {left}"

    def kill_everything(self):
        for pid in self.left_over():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def pids(self, word):
        """Pids of this job whose command line has `word` (ranks: "--slot", agents: " agent")."""
        return sorted(pid for pid, command in self.left_over().items() if word in command)


def run(*args, timeout=60, **options):
    return Job(GPUTRAIN, *args, **options).finish(timeout)


def launch(config, *args, timeout=60, **options):
    return run("launch", config, *args, timeout=timeout, **options)


def wait_until(condition, timeout=20.0, what="condition"):
    deadline = time.monotonic() + timeout
    while not (value := condition()):
        assert time.monotonic() < deadline, f"timed out waiting for {what}"
        time.sleep(0.01)
    return value


# ---- what a run leaves -------------------------------------------------------------------------------------------------

def events(output, kind=None):
    path = pathlib.Path(output) / "events.jsonl"
    records = []
    for line in path.read_text().splitlines() if path.exists() else []:
        if line:
            try:
                records.append(json.loads(line))
            except json.JSONDecodeError:  # torn by a kill
                pass
    return [r for r in records if kind is None or r["kind"] == kind]


def result(output):
    return json.loads((pathlib.Path(output) / "result.json").read_text())


def checkpoints(output):
    """Committed steps, ascending."""
    return sorted(int(p.name[5:]) for p in (pathlib.Path(output) / "checkpoints").glob("step-*"))


def checkpoint_files(output, step=None):
    """{file name: bytes} of one checkpoint (the newest)."""
    step = checkpoints(output)[-1] if step is None else step
    folder = pathlib.Path(output) / "checkpoints" / f"step-{step:08d}"
    return {p.name: p.read_bytes() for p in sorted(folder.iterdir())}


def tree(folder):
    """{relative path: hash or 'dir'} of everything below: equal trees compare equal."""
    folder = pathlib.Path(folder)
    if not folder.exists():
        return None
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() if p.is_file() else "dir" for p in sorted(folder.rglob("*"))}


def read_safetensors(data):
    """{name: (dtype, shape, bytes)} of a file's bytes."""
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    body = data[8 + length:]
    return {name: (t["dtype"], t["shape"], body[t["data_offsets"][0]:t["data_offsets"][1]]) for name, t in header.items() if name != "__metadata__"}


def doubles(data):
    return struct.unpack(f"<{len(data) // 8}d", data)


def trace(folder):
    """{(attempt, rank): [record of each step]} written under GPUTRAIN_INTERNAL_TRACE."""
    found = {}
    for path in sorted(pathlib.Path(folder).glob("attempt-*-rank-*.jsonl")):
        attempt, rank = (int(part) for part in path.stem.replace("attempt-", "").split("-rank-"))
        found[attempt, rank] = [json.loads(line) for line in path.read_text().splitlines() if line]
    return found


# ---- data and specs ----------------------------------------------------------------------------------------------------

def write_idx(folder, samples, size=8, classes=10, seed=0, name="train"):
    """A small learnable idx pair: class k is a bright block at a place of its own, with noise. Returns (images, labels)."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    rng = random.Random(seed)
    labels = bytes(rng.randrange(classes) for _ in range(samples))
    pixels = bytearray(rng.randbytes(samples * size * size))
    for i, label in enumerate(labels):
        row, column = divmod(label * 5 % (size * size - size - 1), size)
        for r in (0, 1):
            for c in (0, 1):
                pixels[i * size * size + min(row + r, size - 1) * size + min(column + c, size - 1)] = 255
    images, targets = folder / f"{name}-images-idx3-ubyte", folder / f"{name}-labels-idx1-ubyte"
    images.write_bytes(struct.pack(">IIII", 0x803, samples, size, size) + bytes(pixels))
    targets.write_bytes(struct.pack(">II", 0x801, samples) + labels)
    return images, targets


def write_spec(path, text):
    path = pathlib.Path(path)
    path.write_text(text)
    return path


def mlp_spec(folder, *, samples=64, ranks=2, seed=0, extra="", size=8, val=0, train="epochs: 1, global_batch: 16", dropout=0.0,
             transforms="[to_tensor]", checkpoint="{every: never}", evaluate="", precision="fp32", hosts="[local]", hidden="[16]", launch=""):
    """Writes data and a spec for a tiny MLP under `folder`; returns the spec's path. The run directory is folder/out."""
    folder = pathlib.Path(folder)
    images, labels = write_idx(folder / "data", samples, size, seed=seed)
    val_lines = ""
    if val:
        vi, vl = write_idx(folder / "data", val, size, seed=seed + 1, name="val")
        val_lines = f"  val: {{format: idx, images: {vi}, labels: {vl}}}\n"
    val_transforms = "    val: [to_tensor]\n" if val else ""
    return write_spec(folder / "spec.yaml", f"""\
name: tiny
output: {folder}/out
seed: 1
launch: {{hosts: {hosts}, nproc_per_node: {ranks}, omp_threads: 1{", " + launch if launch else ""}}}
model: {{name: mlp, args: {{in_features: {size * size}, hidden: {hidden}, num_classes: 10, dropout: {dropout}}}}}
task: classification
data:
  train: {{format: idx, images: {images}, labels: {labels}}}
{val_lines}  transforms:
    train: {transforms}
{val_transforms}train: {{{train}, precision: {precision}}}
optimizer: {{name: adamw, lr: 2e-3}}
{"evaluate: " + evaluate if evaluate else ""}
checkpoint: {checkpoint}
{extra}
""")


def worker_with(folder, shell):
    """The environment of a launch whose ranks run `shell` (it knows $RANK) before they become gputrain-worker: another host, on one machine."""
    script = pathlib.Path(folder) / "worker.sh"
    script.write_text(f'#!/bin/sh\n{shell}\nexec {BUILD}/gputrain-worker "$@"\n')
    script.chmod(0o755)
    return {"GPUTRAIN_WORKER": str(script)}


def start_fake_run(folder, script, *args, **spec):
    """A launch whose ranks are fake workers that play `script`, after their first step."""
    environment = {"GPUTRAIN_WORKER": str(BUILD / "fake_worker"), "FAKE_WORKER_SCRIPT": json.dumps(script)}
    job = Job(GPUTRAIN, "launch", mlp_spec(folder, **spec), *args, env=environment)
    try:
        wait_until(lambda: events(pathlib.Path(folder) / "out", "step"), what="the first step")
    except AssertionError:
        job.kill_everything()
        raise
    return job

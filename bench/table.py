"""Rows of figures: repeated, judged against their budgets, printed and written as JSON."""
import argparse
import dataclasses
import datetime
import json
import os
import pathlib
import re
import statistics
import subprocess
import tempfile

import jobs
from comparable import NotComparable
from sides import Ground

# How the medians of both sides make a ratio; the last two have an upper bound as budget.
RATIOS = {
    "more": lambda ours, theirs: ours / theirs,  # of a speed
    "less": lambda ours, theirs: theirs / ours,  # of a time
    "share": lambda ours, theirs: ours / theirs,  # of memory
    "overhead": lambda ours, theirs: theirs / ours - 1,  # of a speed
}
UPPER = ("share", "overhead")


@dataclasses.dataclass
class Row:
    """`raw`: {"gputrain": [...], "peer": [...]}, one value a repetition; `ratio`: a key of RATIOS."""
    name: str
    unit: str
    raw: dict
    ratio: str
    budget: float | None = None
    peer: str = "torchrun + DDP"

    def json(self):
        median = {side: statistics.median(values) for side, values in self.raw.items()}
        ratio = RATIOS[self.ratio](median["gputrain"], median["peer"])
        met = self.budget is None or (ratio <= self.budget if self.ratio in UPPER else ratio >= self.budget)
        return {"unit": self.unit, "peer": self.peer, "raw": self.raw, "median": median, "ratio": ratio, "budget": self.budget, "met": met}

    def text(self):
        found = self.json()
        sides = "  ".join(f"{side} {found['median'][side]:9.3f} [{min(values):.3f} .. {max(values):.3f}]" for side, values in self.raw.items())
        against = "no budget" if self.budget is None else f"budget {'<=' if self.ratio in UPPER else '>='} {self.budget}"
        return f"{self.name:18} {sides} {self.unit:8} {self.ratio} {found['ratio']:6.3f} ({against})  {'' if found['met'] else 'MISSED'}"


def alternate(repeat, measure, sides):
    """measure(side) of each in turn, so that drift of the machine meets both: {"gputrain": [...], "peer": [...]}."""
    raw = {"gputrain": [], "peer": []}
    for _ in range(repeat):
        for name, side in zip(raw, sides):
            raw[name].append(measure(side))
    return raw


def machine(ground):
    """What the figures belong to."""
    git = subprocess.run(["git", "-C", str(jobs.ROOT), "describe", "--always", "--dirty"], capture_output=True, text=True)
    torch = subprocess.run([ground.python, "-c", "import torch; print(torch.__version__)"], capture_output=True, text=True, check=True)
    model = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    return {"commit": git.stdout.strip(), "torch": torch.stdout.strip(), "cores": len(os.sched_getaffinity(0)), "cpu": model[1] if model else "",
            "date": datetime.date.today().isoformat()}


def measure(ground, measures, arguments):
    results = {"machine": machine(ground)}
    for name in arguments.only:
        for row in measures[name](ground, arguments.repeat):
            print(row.text(), flush=True)
            results[row.name] = row.json()
        if arguments.out:  # after each, so that what was measured outlives a failure of the next
            arguments.out.parent.mkdir(parents=True, exist_ok=True)
            arguments.out.write_text(json.dumps(results, indent=1) + "\n")


def main(description, measures, prepare, default=None):
    """`measures`: {name: function(ground, repeat) -> [Row]}; prepare(ground, names) compares the sides first. Exit status: 1 when a NotComparable
    was raised by either."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=jobs.ROOT / "build", type=pathlib.Path)
    parser.add_argument("--python", required=True)
    parser.add_argument("--repeat", default=5, type=int)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--tiny", action="store_true", help="small models: shows that the bench works; its figures mean nothing")
    parser.add_argument("--only", nargs="*", choices=list(measures), default=default or list(measures))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gputrain-bench-") as folder:
        ground = Ground(arguments.build.resolve(), arguments.python, jobs.TINY if arguments.tiny else jobs.JOBS, pathlib.Path(folder), arguments.tiny)
        ground.data.mkdir()
        ground.epochs = jobs.make_data(ground.data, ground.jobs, ground.python)
        try:
            prepare(ground, arguments.only)
            measure(ground, measures, arguments)
        except NotComparable as problem:
            print(f"not comparable: {problem}")
            return 1
    return 0

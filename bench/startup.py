#!/usr/bin/env python3
"""bench/startup: launch to first step, kill -9 to next step, peak RSS, against torchrun + Python DDP of the same torch.

usage: bench/startup.py --python PEERS_PYTHON [--build build] [--repeat 5] [--out bench/results/startup.json] [--only NAME ...]

Both sides are given the same: sample ids, initial weights, threads, fp32, no clipping, one record a step. Before a ratio is printed that is
shown (bench/comparable.py); otherwise "not comparable", exit 1. Repetitions alternate. A missed budget (design section 8) prints MISSED.
Steps per second are bench/engine's. Each side runs as its launcher runs it.
"""
import os
import signal
import sys
import time

import table
from comparable import check_runs
from sides import TIMEOUT, Gputrain, Peer, Wish


def first_step(ground, side_class):
    side = side_class(ground, "run", Wish("mlp", 2, 3)).start().finish()
    return side.records()[0]["time"] - side.begun


def kill_to_next_step(ground, side_class):
    """kill -9 of rank 1 after a save; the time until a step that follows the restart is done."""
    # By default torchrun (2.11) keeps one store over restarts, ranks read the Gloo addresses of the dead attempt in it, and no restart ever
    # connects. With a store for each attempt it does, so this is what a user who has found that out would set.
    own_store = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"} if side_class is Peer else {}
    side = side_class(ground, "run", Wish("mlp", 2, 100000, save_every=50, environment=own_store)).start()
    side.wait_for_step(120)
    victim = side.ranks_pids()[1]
    killed = time.time()
    os.kill(victim, signal.SIGKILL)
    while time.time() < killed + TIMEOUT:
        records = side.records()
        restarted = [i for i in range(1, len(records)) if records[i]["step"] <= records[i - 1]["step"]]
        if restarted:
            side.kill()
            return records[restarted[-1]]["time"] - killed
        time.sleep(0.005)
    side.kill()
    raise SystemExit(f"{side.folder.name}: no step within {TIMEOUT} s of the kill\n{side.errors()}")


def rss(ground, side_class):
    side = side_class(ground, "run", Wish("mlp", 2, 100000)).start()
    side.wait_for_step(200)
    peak = side.peak_rss()
    side.kill()
    return peak


def row(name, function, unit, ratio, budget):
    def measure(ground, repeat):
        return [table.Row(name, unit, table.alternate(repeat, lambda side: function(ground, side), (Gputrain, Peer)), ratio, budget)]
    return name, measure


MEASURES = dict([
    row("first_step", first_step, "s", "less", 5.0),
    row("kill_to_next_step", kill_to_next_step, "s", "less", 5.0),
    row("rss", rss, "MiB", "share", 0.6),
])

if __name__ == "__main__":
    sys.exit(table.main(__doc__, MEASURES, lambda ground, names: check_runs(ground, [("mlp", 2)])))

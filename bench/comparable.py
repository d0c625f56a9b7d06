"""Before a ratio is printed: did both sides do the same? The functions *_differ return what differs, or None."""
import json
import subprocess

import jobs
from sides import Gputrain, Peer, Wish

FIRST, LATER = 1e-6, 1e-4  # of losses, relative to the larger of 1 and the peer's


class NotComparable(Exception):
    """Both sides did not do the same: no ratio of them means anything."""


def refuse(problem, what):
    if problem:
        raise NotComparable(f"{what}: {problem}")


def losses_differ(ours, theirs):
    """Losses step by step: the first is of equal weights, the later ones of equal training."""
    if len(ours) != len(theirs):
        return f"{len(ours)} losses against {len(theirs)}"
    for i, (a, b) in enumerate(zip(ours, theirs)):
        if not abs(a - b) <= (LATER if i else FIRST) * max(1, abs(b)):  # not: NaN differs too
            return f"loss of step {i + 1}: {a} against {b}"
    return None


def ids_differ(found, epochs, batch, rank=0, ranks=1):
    """`found`: a rank's sample ids of each step, against the order contract."""
    begin, end = jobs.order.share(batch, rank, ranks)
    for step, ids in enumerate(found):
        if ids != epochs[0][step * batch:(step + 1) * batch][begin:end]:
            return f"rank {rank}: sample ids differ at step {step + 1}"
    return None


def first_weights_differ(ground, job):
    """A run whose first learning rate is 0 saves its first weights; the peer writes its own. Equal to the bit."""
    theirs = ground.work / "first-weights.safetensors"
    Peer(ground, "weights-peer", Wish(job, 1, 1, first_weights=str(theirs))).start().finish()
    spec = "schedule: {name: constant, warmup: 2 steps, warmup_start: 0}"
    ours = Gputrain(ground, "weights-ours", Wish(job, 1, 3, save_every=1, spec=spec)).start().finish()
    code = f"""
from safetensors.torch import load_file
ours, theirs = load_file(r"{ours.folder}/out/checkpoints/step-00000001/model.safetensors"), load_file(r"{theirs}")
print([name for name in theirs if name not in ours or not ours[name].equal(theirs[name])] or "equal", end="")
"""
    found = subprocess.run([ground.python, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True).stdout
    return None if found == "equal" else f"first weights differ: {found}"


def traced_ids_differ(ground, side):
    for rank in range(side.wish.ranks):
        path = side.folder / f"trace/attempt-1-rank-{rank}.jsonl"
        trace = [json.loads(line) for line in path.read_text().splitlines()]
        if [record["step"] for record in trace] != list(range(1, side.wish.steps + 1)):
            return f"rank {rank} has not traced {side.wish.steps} steps"
        if problem := ids_differ([record["ids"] for record in trace], ground.epochs, side.job.global_batch, rank, side.wish.ranks):
            return problem
    return None


def runs_differ(ground, job, ranks):
    """Both sides, some steps: settings, sample ids, losses, one record a step."""
    steps = ground.jobs[job].check_steps
    ours = Gputrain(ground, "check-ours", Wish(job, ranks, steps, trace=True)).start().finish()
    theirs = Peer(ground, "check-peer", Wish(job, ranks, steps)).start().finish()
    for side in (ours, theirs):
        if [record["step"] for record in side.records()] != list(range(1, steps + 1)):
            return f"{side.name}: not one record for each of {steps} steps"
    if ours.settings() != theirs.settings():
        return f"settings: {ours.settings()} against {theirs.settings()}"
    return (traced_ids_differ(ground, ours)
            or losses_differ([record["loss"] for record in ours.records()], [record["loss"] for record in theirs.records()]))


def check_runs(ground, pairs):
    """Each (job, ranks)."""
    if not pairs:
        return
    for job in sorted({job for job, _ in pairs}):
        refuse(first_weights_differ(ground, job), job)
    for job, ranks in pairs:
        refuse(runs_differ(ground, job, ranks), f"{job} on {ranks} rank(s)")
    print("comparable: first weights equal to the bit, sample ids equal, losses of the first steps within 1e-4 (the first within 1e-6); "
          "float32, 1 thread, no clipping, one record a step", flush=True)

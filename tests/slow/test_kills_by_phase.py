"""Every kind of death in every phase of a step, at two and three ranks: nothing is lost, nothing is repeated beyond the interval, no bit changes.

About 90 events. Each is placed by GPUTRAIN_INTERNAL_HOLD; where the rank stood is read from its progress page (its memfd, through /proc)
right before the blow. The counts are printed: run pytest with -s to see them.
"""
import collections
import os
import pathlib
import signal

import pytest

from support import gp
from support.curve import PHASES, check_steps, curve, evaluations, phase_of

INTERVAL, EPOCH_STEPS, EPOCHS = 7, 23, 2
LAST = EPOCH_STEPS * EPOCHS
PLACES = [phase for phase in PHASES if phase != "idle"]
# Where each phase is entered: mid-interval, except those that happen only at an evaluation or a save.
HOLD_STEP = {"set-up": 0, "evaluation": EPOCH_STEPS, "writing": 14, "commit": 14}
WAYS = ["kill rank 0", "kill last rank", "kill agent", "kill controller", "term controller", "term group", "term one rank"]
SEEN = collections.Counter()


def recipe(folder, world):
    folder.mkdir()
    return gp.mlp_spec(folder, samples=22 * 12 + 5, val=30, ranks=world, dropout=0.2, hidden="[24]",
                       train=f"epochs: {EPOCHS}, global_batch: 12", transforms="[random_horizontal_flip, {random_crop: {size: 8, padding: 1}}, to_tensor]",
                       checkpoint=f"{{every: {INTERVAL} steps, keep_last: 100}}", evaluate="{every: 1 epoch}")


@pytest.fixture(scope="module", params=[2, 3])
def undisturbed(request, tmp_path_factory):
    """(world, curve, evaluations, final files) of a run that nobody touched."""
    folder = tmp_path_factory.mktemp("undisturbed") / "run"
    job = gp.launch(recipe(folder, request.param))
    assert job.code == 0, job.err
    assert sorted(curve(folder / "out")) == list(range(1, LAST + 1))
    return request.param, curve(folder / "out"), evaluations(folder / "out"), gp.checkpoint_files(folder / "out")


def rank_of(pid):
    words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
    return int(words[words.index("--slot") + 1])  # there is one host


def strike(job, way, held_rank):
    """Reads where the held rank stands, then kills or stops. True when the controller is to go on by itself."""
    ranks = {rank_of(pid): pid for pid in job.pids("--slot")}
    where = phase_of(ranks[held_rank])
    if way == "kill rank 0":
        os.kill(ranks[0], signal.SIGKILL)
    elif way == "kill last rank":
        os.kill(ranks[max(ranks)], signal.SIGKILL)
    elif way == "kill agent":
        (agent,) = job.pids(" agent")
        os.kill(agent, signal.SIGKILL)
    elif way == "kill controller":
        os.kill(job.process.pid, signal.SIGKILL)
    elif way == "term controller":
        os.kill(job.process.pid, signal.SIGTERM)
    elif way == "term group":
        os.killpg(job.process.pid, signal.SIGTERM)
    elif way == "term one rank":  # the held one: another's flag travels by vote, which a held rank does not reach
        os.kill(ranks[held_rank], signal.SIGTERM)
    return where


def cases():
    return [(phase, way) for phase in PLACES for way in WAYS]


@pytest.mark.parametrize("phase, way", cases(), ids=lambda value: value.replace(" ", "-"))
def test_a_death_changes_nothing(undisturbed, tmp_path, phase, way):
    world, expected_curve, expected_evaluations, expected_files = undisturbed
    if world == 3 and way in ("term group", "kill last rank") and phase not in ("backward", "all-reduce", "commit"):
        pytest.skip("at two ranks every way in every phase; at three these two only where rank count matters")
    folder = tmp_path / "run"
    spec = recipe(folder, world)
    once = tmp_path / "held"
    # Only rank 0 writes; elsewhere the last rank holds, so that rank 0's death meets a rank that waits and the reverse.
    held_rank = 0 if phase in ("writing", "commit") or way == "kill rank 0" else world - 1
    step = HOLD_STEP.get(phase, 10)
    hold = {"GPUTRAIN_INTERNAL_HOLD": f"{phase}@{step}", "GPUTRAIN_INTERNAL_HOLD_RANK": str(held_rank), "GPUTRAIN_INTERNAL_HOLD_ONCE": str(once)}
    job = gp.Job(gp.GPUTRAIN, "launch", spec, env=hold)
    try:
        gp.wait_until(once.exists, what=f"rank {held_rank} to hold in {phase}@{step}")
        assert strike(job, way, held_rank) == (step, phase)
        SEEN[phase] += 1
        job.finish(timeout=40)
    finally:
        job.kill_everything()
    job.wait_for_nothing_left(3.0)
    saved_before = gp.checkpoints(folder / "out")

    if way == "kill controller":
        assert job.code == 137
        check_continuation(gp.launch(spec), folder, saved_before)
    elif way.startswith("term"):
        assert job.code == 75, (job.code, job.err)
        check_continuation(gp.launch(spec), folder, saved_before)
    else:
        assert job.code == 0, job.err
        check_restart_within(folder, phase)

    assert not list((folder / "out" / "checkpoints").glob(".tmp-*"))
    assert curve(folder / "out") == expected_curve
    assert evaluations(folder / "out") == expected_evaluations
    final = gp.checkpoint_files(folder / "out")
    for name in ("model.safetensors", "optimizer.safetensors", "state.json"):
        assert final[name] == expected_files[name], name


def check_continuation(again, folder, saved_before):
    assert again.code == 0, again.err
    again.wait_for_nothing_left()
    start = gp.events(folder / "out", "start")[-1]
    if saved_before:
        assert start["resumed_step"] == saved_before[-1] > 0
    check_steps(folder / "out", LAST, INTERVAL, blows=1)


def check_restart_within(folder, phase):
    starts = gp.events(folder / "out", "start")
    failures = gp.events(folder / "out", "failure")
    assert len(failures) == 1
    assert starts[-1]["attempt"] == 2
    if phase != "set-up":
        assert starts[-1]["resumed_step"] > 0
    check_steps(folder / "out", LAST, INTERVAL, blows=1)


def test_each_phase_was_hit():
    """Last: the counts over all ways and both world sizes."""
    print("\nhits by phase:", dict(SEEN), "in all", sum(SEEN.values()))
    for phase in PLACES:
        assert SEEN[phase] >= 5, SEEN
    assert sum(SEEN.values()) >= 90, SEEN

"""A disk that fills up during training: the right exit code, the last good checkpoint kept, and a relaunch that goes on from it once there is room."""
import json

import pytest

from support import gp

STEPS = 16
# 235k of parameters and optimizer state a checkpoint, one every two steps, all kept.
LARGE = {"samples": 512, "hidden": "[256]", "train": "epochs: 1, global_batch: 32", "checkpoint": "{every: 2 steps, keep_last: 100}"}
# Hardly more than records.
SMALL = {"samples": 512 * 32, "hidden": "[4]", "train": "epochs: 1, global_batch: 32", "checkpoint": "{every: 40 steps, keep_last: 1}"}


def run_on_a_small_disk(folder, spec, size):
    """Two launches on a tmpfs of `size` at folder/out, the second with room. Returns them, and what lay there after each."""
    (folder / "out").mkdir()
    script = f"""
mount -t tmpfs -o size={size} tmpfs {folder}/out
for attempt in 1 2; do
  code=0; {gp.GPUTRAIN} launch {spec} 2>{folder}/err-$attempt || code=$?
  echo $code >{folder}/code-$attempt
  cp -r {folder}/out {folder}/after-$attempt
  mount -o remount,size=64m {folder}/out
done
"""
    job = gp.Job("unshare", "-m", "bash", "-ec", script).finish(120)
    assert job.code == 0, job.err
    job.wait_for_nothing_left()
    return [(int((folder / f"code-{n}").read_text()), (folder / f"err-{n}").read_text(), folder / f"after-{n}") for n in (1, 2)]


@pytest.mark.parametrize("what, size, codes", [("checkpoints", "1m", (74,)), ("records", "192k", (73, 74))])
def test_a_disk_that_fills_up_costs_no_checkpoint(tmp_path, what, size, codes):
    spec = gp.mlp_spec(tmp_path, **(LARGE if what == "checkpoints" else SMALL))
    total = STEPS if what == "checkpoints" else 512
    (first, first_err, after), (second, second_err, at_last) = run_on_a_small_disk(tmp_path, spec, size)
    assert first in codes, first_err
    assert first_err.count("gputrain: error:") == 1 and "hint:" in first_err, first_err
    assert "space" in first_err.lower() or "free" in first_err, first_err
    good = gp.checkpoints(after)
    assert good and good[-1] < total, good
    assert not list((after / "checkpoints").glob(".tmp-*")), "a half-written checkpoint takes what room there is"
    assert second == 0, second_err
    assert f"resuming from step {good[-1]} " in second_err, second_err
    assert gp.checkpoints(at_last)[-1] == total
    steps = [record["step"] for record in gp.events(at_last, "step")]
    resumed = [record["resumed_step"] for record in gp.events(at_last, "start")][-1]
    assert resumed == good[-1] and steps[-(total - resumed):] == list(range(resumed + 1, total + 1))
    assert json.loads((at_last / "result.json").read_text())["outcome"] == "done"

"""Same seed twice: the same bytes; a resume continues to the bit."""
import json

import pytest

from support import gp

RECIPE = dict(samples=120, val=40, dropout=0.2, train="epochs: 2, global_batch: 16",
              transforms="[random_horizontal_flip, {random_crop: {size: 8, padding: 1}}, to_tensor]", checkpoint="{every: 3 steps, keep_last: 3}",
              evaluate="{every: 1 epoch}")


def losses(output):
    """The last record of each step: what a curve shows."""
    return {record["step"]: (record["loss"], record["lr"], record["grad_norm"]) for record in gp.events(output, "step")}


def without_run_id(manifest):
    parsed = json.loads(manifest)
    assert parsed.pop("run_id")
    return parsed


@pytest.mark.parametrize("world", [2, 3])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_same_seed_twice_gives_the_same_files(tmp_path, world, precision):
    folders = []
    for name in ("a", "b"):
        folder = tmp_path / name
        folder.mkdir()
        job = gp.launch(gp.mlp_spec(folder, ranks=world, precision=precision, **RECIPE))
        assert job.code == 0, job.err
        folders.append(folder / "out")
    assert losses(folders[0]) == losses(folders[1])
    assert gp.checkpoints(folders[0]) == gp.checkpoints(folders[1]) == [12, 15, 16]
    for step in gp.checkpoints(folders[0]):
        a, b = gp.checkpoint_files(folders[0], step), gp.checkpoint_files(folders[1], step)
        assert a.keys() == b.keys()
        for name in a:
            if name == "manifest.json":
                assert without_run_id(a[name]) == without_run_id(b[name])
            else:
                assert a[name] == b[name], name


@pytest.mark.parametrize("world", [2, 3])
@pytest.mark.parametrize("stop_at", [5, 8])  # in an epoch, and at its end
def test_a_stop_and_a_relaunch_change_nothing(tmp_path, world, stop_at):
    for name in ("whole", "cut"):
        (tmp_path / name).mkdir()
    whole = gp.mlp_spec(tmp_path / "whole", ranks=world, **RECIPE)
    assert gp.launch(whole).code == 0
    cut = gp.mlp_spec(tmp_path / "cut", ranks=world, **RECIPE)
    once = tmp_path / "held"
    job = gp.Job(gp.GPUTRAIN, "launch", cut, env={"GPUTRAIN_INTERNAL_HOLD": f"forward@{stop_at}", "GPUTRAIN_INTERNAL_HOLD_ONCE": str(once)})
    gp.wait_until(once.exists, what="the hold")
    job.process.terminate()
    job.finish()
    assert job.code == 75, job.err
    job.wait_for_nothing_left()
    assert gp.checkpoints(tmp_path / "cut/out")[-1] >= stop_at
    again = gp.launch(cut)
    assert again.code == 0, again.err
    assert losses(tmp_path / "cut/out") == losses(tmp_path / "whole/out")
    a, b = gp.checkpoint_files(tmp_path / "cut/out"), gp.checkpoint_files(tmp_path / "whole/out")
    for name in ("model.safetensors", "optimizer.safetensors", "state.json"):
        assert a[name] == b[name], name


def test_another_world_size_is_sample_exact(tmp_path):
    """Stopped at 2 ranks, continued at 3, then at 1: every sample once an epoch, and people are told that bits may differ."""
    spec = gp.mlp_spec(tmp_path, samples=120, train="epochs: 1, global_batch: 16", checkpoint="{every: 2 steps}")
    steps = []
    for attempt, (world, stop_at) in enumerate([(2, 3), (3, 6), (1, None)], 1):
        trace = tmp_path / f"trace-{attempt}"
        env = {"GPUTRAIN_INTERNAL_TRACE": str(trace)}
        once = tmp_path / f"held-{attempt}"
        if stop_at:
            env.update({"GPUTRAIN_INTERNAL_HOLD": f"forward@{stop_at}", "GPUTRAIN_INTERNAL_HOLD_ONCE": str(once)})
        job = gp.Job(gp.GPUTRAIN, "launch", spec, "--nproc-per-node", str(world), env=env)
        if stop_at:
            gp.wait_until(once.exists, what="the hold")
            job.process.terminate()
        job.finish()
        assert job.code == (75 if stop_at else 0), job.err
        if attempt > 1:
            assert "sample-exact, not bit-exact" in job.err and "world_size 2 -> 3" in job.err or attempt == 3, job.err
        for lines in gp.trace(trace).values():
            steps += [(record["step"], record["ids"]) for record in lines]
    ids = [sample for _, part in steps for sample in part]
    assert sorted(ids) == list(range(120))


def test_a_finished_run_is_already_complete_and_more_epochs_continue_it(tmp_path):
    spec = gp.mlp_spec(tmp_path, samples=64, train="epochs: 1, global_batch: 16")
    assert gp.launch(spec).code == 0
    before = gp.tree(tmp_path / "out")
    job = gp.launch(spec)
    assert job.code == 0 and "already complete at step 4" in job.err, job.err
    assert gp.tree(tmp_path / "out") == before
    job = gp.launch(spec, "--set", "train.epochs=2")
    assert job.code == 0, job.err
    assert [record["step"] for record in gp.events(tmp_path / "out", "step")] == list(range(1, 9))


def test_resume_never_moves_the_old_aside(tmp_path):
    spec = gp.mlp_spec(tmp_path, samples=64, train="epochs: 1, global_batch: 16")
    assert gp.launch(spec).code == 0
    old = gp.checkpoint_files(tmp_path / "out")
    job = gp.launch(spec, "--resume", "never")
    assert job.code == 0, job.err
    moved = list((tmp_path / "out").glob("checkpoints.old-*/step-00000004/model.safetensors"))
    assert len(moved) == 1 and moved[0].read_bytes() == old["model.safetensors"]
    assert gp.checkpoint_files(tmp_path / "out")["model.safetensors"] == old["model.safetensors"]
    assert [record["step"] for record in gp.events(tmp_path / "out", "step")] == [1, 2, 3, 4] * 2


def test_resume_from_a_path(tmp_path):
    spec = gp.mlp_spec(tmp_path, samples=64, train="epochs: 1, global_batch: 16", checkpoint="{every: 2 steps}")
    assert gp.launch(spec).code == 0
    job = gp.launch(spec, "--resume", str(tmp_path / "out/checkpoints/step-00000002"), "--set", f"output={tmp_path}/other")
    assert job.code == 0, job.err
    assert [record["step"] for record in gp.events(tmp_path / "other", "step")] == [3, 4]
    assert gp.checkpoint_files(tmp_path / "other")["model.safetensors"] == gp.checkpoint_files(tmp_path / "out", 4)["model.safetensors"]


def test_a_stop_in_the_last_evaluation_is_made_up_for_once(tmp_path):
    spec = gp.mlp_spec(tmp_path, samples=64, val=20, train="epochs: 1, global_batch: 16")
    once = tmp_path / "held"
    job = gp.Job(gp.GPUTRAIN, "launch", spec, env={"GPUTRAIN_INTERNAL_HOLD": "evaluation@4", "GPUTRAIN_INTERNAL_HOLD_RANK": "0",
                                                   "GPUTRAIN_INTERNAL_HOLD_ONCE": str(once)})
    gp.wait_until(once.exists, what="the hold")
    job.process.terminate()
    job.finish()
    assert job.code == 75 and gp.checkpoints(tmp_path / "out") == [4], job.err
    assert gp.events(tmp_path / "out", "eval") == []
    job = gp.launch(spec)
    assert job.code == 0 and [record["step"] for record in gp.events(tmp_path / "out", "eval")] == [4], job.err
    before = gp.tree(tmp_path / "out")
    job = gp.launch(spec)
    assert job.code == 0 and "already complete at step 4" in job.err, job.err
    assert gp.tree(tmp_path / "out") == before


def test_resume_from_the_runs_own_checkpoint_leaves_it_where_it_is_however_it_is_spelled(tmp_path):
    """It was moved aside as somebody else's, and a failure before the next save found nothing to go on from."""
    spec = gp.mlp_spec(tmp_path, samples=64, train="epochs: 1, global_batch: 16", checkpoint="{every: 2 steps}")
    (tmp_path / "link").symlink_to(tmp_path)
    assert gp.launch(spec).code == 0
    own = tmp_path / "out/checkpoints/step-00000002"
    for i, output in enumerate([f"{tmp_path}/out/", f"{tmp_path}/link/out", f"{tmp_path}//out"]):
        held = tmp_path / f"held-{i}"
        job = gp.Job(gp.GPUTRAIN, "launch", spec, "--resume", str(own), "--set", f"output={output}",
                     env={"GPUTRAIN_INTERNAL_HOLD": "forward@3", "GPUTRAIN_INTERNAL_HOLD_ONCE": str(held)})
        gp.wait_until(held.exists, what="the hold")
        assert own.is_dir(), list((tmp_path / "out/checkpoints").iterdir())
        job.process.terminate()
        job.finish()
        assert job.code == 75 and own.is_dir(), job.err


def test_best_is_of_one_metric_on_one_data_set(tmp_path):
    """What was best by another metric, or on other data, is no bar for the new one."""
    spec = gp.mlp_spec(tmp_path, samples=64, val=2, train="epochs: 2, global_batch: 16", checkpoint="{every: never, keep_best: accuracy}",
                       evaluate="{every: 1 step}")
    assert gp.launch(spec).code == 0
    out = tmp_path / "out"

    def state():
        return json.loads((out / "checkpoints" / f"step-{gp.checkpoints(out)[-1]:08d}" / "state.json").read_text())

    assert state()["best_of"]["metric"] == "accuracy"
    assert gp.launch(spec, "--set", "checkpoint.keep_best=loss", "--set", "train.epochs=3").code == 0
    losses = [record["loss"] for record in gp.events(out, "eval") if record["step"] > 8]
    assert state()["best"] == min(losses) and state()["best_of"]["metric"] == "loss"
    images, labels = gp.write_idx(tmp_path / "more", 40, 8, seed=9, name="val")
    more = ["--set", f"data.val.images={images}", "--set", f"data.val.labels={labels}"]
    assert gp.launch(spec, "--set", "checkpoint.keep_best=loss", "--set", "train.epochs=4", *more).code == 0
    losses = [record["loss"] for record in gp.events(out, "eval") if record["step"] > 12]
    assert state()["best"] == min(losses)
    best = gp.run("eval", spec, "--checkpoint", "best", *more)
    assert best.code == 0 and json.loads(best.out)["loss"] == min(losses), best.err

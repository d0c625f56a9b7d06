"""What a run tells of itself: its step's split, its model's arithmetic, a trace, and why it ended before its plan."""
import collections
import json

from support import gp

STUCK = {"val": 32, "evaluate": "{every: 2 steps}", "train": "epochs: 10, global_batch: 16", "checkpoint": "{every: 1 epoch}"}
PARTS = ("data_wait_s", "forward_s", "backward_s", "exposed_communication_s", "optimizer_s", "other_s")


def stopping(patience):
    # No value is better than the first by that much.
    return f"early_stopping: {{metric: loss, patience: {patience}, min_delta: 1000}}\n"


def test_a_run_that_no_longer_improves_is_complete(tmp_path):
    spec = gp.mlp_spec(tmp_path, extra=stopping(2), **STUCK)
    job = gp.launch(spec)
    assert job.code == 0, job.err
    words = "stopped early: loss has not improved for 2 evaluations"
    assert words in job.err
    assert "--set early_stopping.patience=4" in job.err
    assert "MFU n/a" in job.err
    result = gp.result(tmp_path / "out")
    assert (result["outcome"], result["step"], result["saved_step"], result["stopped_early"]) == ("done", 6, 6, words)
    assert [r["why"] for r in gp.events(tmp_path / "out", "checkpoint")] == ["every", "last"]
    assert gp.events(tmp_path / "out", "end")[-1]["stopped_early"] == words

    again = gp.launch(spec)
    assert again.code == 0
    assert "already complete at step 6; " + words in again.err

    more = gp.launch(spec, "--set", "early_stopping.patience=4")
    assert more.code == 0, more.err
    assert gp.result(tmp_path / "out")["step"] == 10
    assert gp.events(tmp_path / "out", "start")[-1]["resumed_step"] == 6


def test_each_rank_writes_a_trace_of_the_steps_asked_for(tmp_path):
    job = gp.launch(gp.mlp_spec(tmp_path, extra="log: {profile: [2, 3]}\n"))
    assert job.code == 0, job.err
    folder = tmp_path / "out" / "profile" / "attempt-0001"
    assert sorted(p.name for p in folder.iterdir()) == ["rank-00000.json", "rank-00001.json"]
    for path in folder.iterdir():
        names = collections.Counter(e["name"] for e in json.loads(path.read_text())["traceEvents"] if e.get("ph") == "X")
        assert {n: c for n, c in names.items() if n.startswith("ProfilerStep#")} == {"ProfilerStep#2": 1, "ProfilerStep#3": 1}
        assert names["forward"] == names["backward"] == names["optimizer"] == 2
        assert names["aten::addmm"] == 4, "two layers, two steps"
        assert names["c10d::allreduce_"] > 0


def test_without_the_setting_there_is_no_trace(tmp_path):
    assert gp.launch(gp.mlp_spec(tmp_path)).code == 0
    assert not (tmp_path / "out" / "profile").exists()


def test_records_say_where_the_time_went_and_what_the_model_costs(tmp_path):
    assert gp.launch(gp.mlp_spec(tmp_path, checkpoint="{every: 2 steps}")).code == 0
    start = gp.events(tmp_path / "out", "start")[0]
    assert start["model_flops_per_sample"] == 3 * 2 * (64 * 16 + 16 * 10)
    assert start["peak_flops"] is None, "nobody knows a CPU's"
    steps = gp.events(tmp_path / "out", "step")
    assert len(steps) == 4
    for record in steps:
        assert record["mfu"] is None
        assert all(record[part] >= 0 for part in PARTS)
        assert record["forward_s"] > 0 and record["backward_s"] > 0 and record["exposed_communication_s"] > 0
    assert steps[2]["checkpoint_s"] > 0 and steps[1]["checkpoint_s"] == 0

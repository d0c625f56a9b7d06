"""Every row of the exit-code table (src/util/exit_code.h), driven through `gputrain launch`; ranks are played by the fake worker."""
import json
import os
import re
import signal

import pytest

from support import gp

FAKE = {"GPUTRAIN_WORKER": str(gp.BUILD / "fake_worker")}
TRAIN = [{"ready": {}}, {"wait": "go"}, {"steps": 3, "every_ms": 1}]
FINISH = [{"checkpoint": True, "why": "last"}, {"done": {}}, {"wait": "release"}, {"exit": 0}]
ENDLESS = [{"ready": {}}, {"wait": "go"}, {"steps": 1, "every_ms": 1}, {"wait": "forever"}]
COVERED = set()


def play(folder, script, *args, timeout=40, env=None, **spec):
    return gp.launch(gp.mlp_spec(folder, **spec), *args, timeout=timeout, env={**FAKE, "FAKE_WORKER_SCRIPT": json.dumps(script), **(env or {})})


def expect(job, folder, code, outcome, *, resumable=None, culprit=None):
    """The code, result.json (or --json where no attempt began) that agrees with it, and nothing left running."""
    COVERED.add(code)
    assert job.code == code, f"exit {job.code}, expected {code}\n{job.err}"
    job.wait_for_nothing_left()
    assert not (folder / "out/lock").exists()
    result = gp.result(folder / "out")
    assert (result["exit_code"], result["outcome"]) == (code, outcome), result
    if resumable is not None:
        assert result["resumable"] is resumable
    for key, value in (culprit or {}).items():
        assert result["culprit"][key] == value, result
    assert gp.events(folder / "out")[-1]["kind"] == "end"
    return result


def test_0_done(tmp_path):
    expect(play(tmp_path, {}), tmp_path, 0, "done", resumable=False)


@pytest.mark.parametrize("code", [1, 3, 63])
def test_1_to_63_pass_the_culprits_code_through(tmp_path, code):
    job = play(tmp_path, {"1": TRAIN + [{"exit": code}], "*": ENDLESS})
    result = expect(job, tmp_path, code, "failed", culprit={"rank": 1, "code": code, "signal": ""})
    assert result["culprit"]["host"] and result["culprit"]["pid"] > 0
    assert f"exit" in job.err and "rank 1" in job.err


@pytest.mark.parametrize("code", [64, 77, 100, 200])
def test_codes_that_mean_something_else_become_1(tmp_path, code):
    """An untyped exit with a code of the table, or above 63, is 1 with the true one in result.json."""
    result = expect(play(tmp_path, {"0": TRAIN + [{"exit": code}], "*": ENDLESS}), tmp_path, 1, "failed")
    assert result["culprit"]["code"] == code


def test_2_usage():
    COVERED.add(2)
    assert gp.run("launch", "x.yaml", "--no-such-flag").code == 2


@pytest.mark.parametrize("kind, code", [("spec", 64), ("data", 65), ("environment", 69), ("internal", 70), ("output", 73), ("checkpoint", 74)])
def test_typed_errors_before_the_first_step(tmp_path, kind, code):
    """Before Go nothing is written, so the same object is printed with --json."""
    COVERED.add(code)
    error = {"error": {"kind": kind, "message": "it is so", "where": "a place", "hint": "do this"}}
    job = play(tmp_path, {"1": [error], "*": ENDLESS}, "--json")
    assert job.code == code, job.err
    assert "it is so" in job.err and "a place" in job.err and "do this" in job.err
    result = json.loads(job.out)
    assert result["exit_code"] == code and result["error"]["kind"] == kind
    assert gp.tree(tmp_path / "out") is None
    job.wait_for_nothing_left()


@pytest.mark.parametrize("kind, code, outcome", [("non_finite", 1, "failed"), ("checkpoint", 74, "checkpoint"), ("data", 65, "data")])
def test_typed_errors_in_training_are_not_retried(tmp_path, kind, code, outcome):
    job = play(tmp_path, {"0": TRAIN + [{"error": {"kind": kind, "message": "it is so"}}], "*": ENDLESS})
    result = expect(job, tmp_path, code, outcome, culprit={"rank": 0})
    assert result["error"]["kind"] == kind
    assert len(gp.events(tmp_path / "out", "start")) == 1


def test_what_every_rank_reports_blames_the_rank_it_names(tmp_path):
    """A loss that is not finite is known to all by their vote: whoever reports it first is not the culprit."""
    error = {"error": {"kind": "non_finite", "message": "the loss is not finite on rank 1", "culprit": 1}}
    job = play(tmp_path, {"0": TRAIN + [error], "1": TRAIN + [{"sleep_ms": 200}, error]})
    expect(job, tmp_path, 1, "failed", culprit={"rank": 1})


def test_64_bad_yaml(tmp_path):
    COVERED.add(64)
    assert gp.launch(gp.write_spec(tmp_path / "x.yaml", "train: [")).code == 64


def test_69_more_ranks_than_gpus(tmp_path):
    COVERED.add(69)
    assert play(tmp_path, {}, launch="backend: nccl", env={"CUDA_VISIBLE_DEVICES": ""}).code == 69


def test_70_a_worker_that_exits_0_before_its_release(tmp_path):
    result = expect(play(tmp_path, {"1": TRAIN + [{"exit": 0}], "*": ENDLESS}), tmp_path, 70, "internal", culprit={"rank": 1})
    assert len(gp.events(tmp_path / "out", "start")) == 1, result


def test_73_output_is_a_file(tmp_path):
    COVERED.add(73)
    (tmp_path / "out").write_text("")
    assert play(tmp_path, {}).code == 73


@pytest.mark.parametrize("notice", [signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP])
def test_75_preempted_and_saved(tmp_path, notice):
    job = gp.start_fake_run(tmp_path, {"*": ENDLESS})
    os.kill(job.process.pid, notice)
    expect(job.finish(), tmp_path, 75, "preempted", resumable=True)


def test_75_also_when_one_rank_gets_the_signal(tmp_path):
    """The real ranks agree by vote; here each fake one is told by the controller."""
    job = gp.start_fake_run(tmp_path, {"*": ENDLESS})
    os.kill(job.pids("--slot")[0], signal.SIGTERM)
    expect(job.finish(), tmp_path, 75, "preempted", resumable=True)


def test_76_preempted_and_not_saved(tmp_path):
    job = gp.start_fake_run(tmp_path, {"*": [{"ignore_term": True}, {"on_stop": [{"sleep_ms": 60000}]}] + ENDLESS}, "--grace", "1s")
    os.kill(job.process.pid, signal.SIGTERM)
    job.finish()
    expect(job, tmp_path, 76, "preempted-unsaved", resumable=True)
    assert job.seconds < 10


def test_77_stopped_by_command(tmp_path):
    job = gp.start_fake_run(tmp_path, {"*": ENDLESS})
    assert gp.run("stop", tmp_path / "out").code == 0
    expect(job.finish(), tmp_path, 77, "stopped", resumable=True)


def test_93_restarts_spent_on_different_causes(tmp_path):
    script = {"0@1": TRAIN + [{"exit": 3}], "0@2": TRAIN + [{"signal": 11}], "0@3": TRAIN + [{"exit": 4}], "*": ENDLESS}
    expect(play(tmp_path, script), tmp_path, 93, "no-progress", resumable=False)
    assert len(gp.events(tmp_path / "out", "start")) == 3


def test_the_same_cause_each_time_keeps_its_code(tmp_path):
    expect(play(tmp_path, {"0": TRAIN + [{"exit": 3}], "*": ENDLESS}), tmp_path, 3, "failed")
    assert len(gp.events(tmp_path / "out", "start")) == 3


def test_a_restart_that_helps(tmp_path):
    job = play(tmp_path, {"1@1": TRAIN + [{"signal": 9}], "*@1": ENDLESS})
    expect(job, tmp_path, 0, "done")
    assert [event["attempt"] for event in gp.events(tmp_path / "out", "start")] == [1, 2]
    (failure,) = gp.events(tmp_path / "out", "failure")
    assert failure["rank"] == 1 and failure["signal"] == "SIGKILL"
    assert "SIGKILL" in job.err and "restart" in job.err


def test_progress_refills_the_budget(tmp_path):
    """max_restarts counts since the last new checkpoint step: four failures, each after a new save, are survived with a budget of one."""
    script = {f"0@{attempt}": [{"ready": {"step": 3 * (attempt - 1)}}, {"wait": "go"}, {"steps": 3}, {"checkpoint": True}, {"exit": 3}] for attempt in (1, 2, 3, 4)}
    script.update({f"*@{attempt}": ENDLESS for attempt in (1, 2, 3, 4)})
    expect(play(tmp_path, script, "--max-restarts", "1"), tmp_path, 0, "done")
    assert len(gp.events(tmp_path / "out", "start")) == 5


def test_124_max_duration(tmp_path):
    job = play(tmp_path, {"*": ENDLESS}, launch="max_duration: 500ms")
    expect(job, tmp_path, 124, "hang", resumable=True)
    assert job.seconds < 15


def test_126_and_127(tmp_path):
    COVERED.update((126, 127))
    (tmp_path / "worker").write_text("no program")
    assert play(tmp_path, {}, env={"GPUTRAIN_WORKER": str(tmp_path / "worker")}).code == 126
    assert play(tmp_path, {}, env={"GPUTRAIN_WORKER": str(tmp_path / "nothing")}).code == 127


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGBUS])
def test_128_plus_n(tmp_path, number):
    job = play(tmp_path, {"1": TRAIN + [{"signal": int(number)}], "*": ENDLESS}, "--max-restarts", "0")
    result = expect(job, tmp_path, 128 + number, "signal", culprit={"rank": 1, "signal": signal.Signals(number).name})
    if number == signal.SIGKILL:
        assert result["culprit"]["oom_killed"] is False
    assert signal.Signals(number).name in job.err


def test_130_interrupt_saves_first_and_twice_kills_now(tmp_path):
    for name in ("once", "twice"):
        (tmp_path / name).mkdir()
    job = gp.start_fake_run(tmp_path / "once", {"*": ENDLESS})
    os.kill(job.process.pid, signal.SIGINT)
    expect(job.finish(), tmp_path / "once", 130, "interrupted", resumable=True)
    job = gp.start_fake_run(tmp_path / "twice", {"*": [{"ignore_term": True}, {"on_stop": [{"sleep_ms": 60000}]}] + ENDLESS})
    os.kill(job.process.pid, signal.SIGINT)
    gp.wait_until(lambda: json.loads(gp.run("status", tmp_path / "twice/out", "--json").out)["state"] == "stopping", what="stopping")
    os.kill(job.process.pid, signal.SIGINT)
    expect(job.finish(10), tmp_path / "twice", 130, "interrupted")


def test_smoke_retries_nothing(tmp_path):
    job = gp.run("launch", "--smoke", "--json", env={**FAKE, "FAKE_WORKER_SCRIPT": json.dumps({"0": TRAIN + [{"exit": 3}], "*": ENDLESS})})
    assert job.code == 3, job.err
    assert "restart" not in job.err.replace("restarts", "")


def test_the_first_failure_reaches_every_agent(tmp_path):
    """Two agents; rank 3 on the second dies: everything ends at once, also ranks in no collective and ranks that ignore SIGTERM."""
    stubborn = [{"ignore_term": True}, {"ready": {}}, {"wait": "go"}, {"steps": 1}, {"sleep_ms": 60000}]
    job = play(tmp_path, {"3": TRAIN + [{"exit": 3}], "*": stubborn}, "--max-restarts", "0", hosts="[local, local]")
    expect(job, tmp_path, 3, "failed", culprit={"rank": 3})
    assert job.seconds < 5


def test_every_row_was_driven():
    rows = {int(code) for code in re.findall(r"^\| (\d+) \|", (gp.ROOT / "README.md").read_text(), re.M)}
    assert rows <= COVERED, f"rows without a test: {sorted(rows - COVERED)}"

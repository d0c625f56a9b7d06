"""What stands in a run directory and is not what a run has put there: copies, locks of other hosts, somebody's files, pipes, deep JSON."""
import json
import os
import shutil
import signal
import socket
import time

import pytest

from support import gp

FAKE = {"GPUTRAIN_WORKER": str(gp.BUILD / "fake_worker")}
ENDLESS = [{"ready": {}}, {"wait": "go"}, {"steps": 1, "every_ms": 1}, {"wait": "forever"}]
ELSEWHERE = {"run_id": "r", "host": "gpu-7", "boot_id": "b", "pid": 4321, "start_time": 9, "attempt": 1, "counter": 7, "socket": "/tmp/x.sock", "inode": 1}
START = {"kind": "start", "attempt": 1, "run_id": "r", "world_size": 2, "total_steps": 9}


def run_directory(folder, events=(START,), **files):
    out = folder / "out"
    out.mkdir(parents=True)
    (out / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    for name, text in files.items():
        (out / name).write_text(text)
    return out


def status(out):
    job = gp.run("status", out, "--json")
    assert job.code == 0, job.err
    return json.loads(job.out)


def refused(job, code, *words):
    assert job.code == code, f"exit {job.code}, expected {code}\n{job.err}"
    for word in words:
        assert word in job.err, f"{word!r} not in:\n{job.err}"


def test_a_copied_run_directory_does_not_control_the_original(tmp_path):
    job = gp.start_fake_run(tmp_path, {"*": ENDLESS})
    copy = tmp_path / "copy"
    try:
        shutil.copytree(tmp_path / "out", copy)
        assert status(tmp_path / "out")["state"] == "running"
        assert status(copy)["state"] != "running" and "ranks" not in status(copy)
        stop = gp.run("stop", copy)
        assert stop.code == 0 and "no run is active" in stop.err
        second = gp.launch(tmp_path / "spec.yaml", "--set", f"output={copy}", env=FAKE)
        assert second.code == 0, second.err
        assert status(tmp_path / "out")["state"] == "running"
        assert gp.run("stop", tmp_path / "out").code == 0
        job.finish(10)
    finally:
        job.kill_everything()
    assert job.code == 77, job.err
    assert gp.result(copy)["outcome"] == "done"


def test_a_run_held_from_another_host(tmp_path):
    """On a shared file system: its files can be read from here, its controller cannot be asked."""
    out = run_directory(tmp_path, [START, {"kind": "step", "attempt": 1, "step": 5}], lock=json.dumps(ELSEWHERE))
    seen = status(out)
    assert (seen["state"], seen["holder"], seen["step"]) == ("ended without a word (killed?)", "perhaps pid 4321 on gpu-7, another host", 5)
    assert "gpu-7" in gp.run("status", out).out
    refused(gp.run("stop", out), 69, "pid 4321 on gpu-7", "run `gputrain stop` there")
    assert gp.run("logs", out).code == 2


def test_a_run_that_a_reboot_ended(tmp_path):
    """Its lock stays: what the files say counts, and nothing can be stopped in an earlier boot."""
    out = run_directory(tmp_path, lock=json.dumps({**ELSEWHERE, "host": socket.gethostname()}))
    seen = status(out)
    assert seen["state"] == "ended without a word (killed?)"
    assert seen["holder"].startswith("perhaps pid 4321 on ") and seen["holder"].endswith(", another boot of this host")
    stop = gp.run("stop", out)
    refused(stop, 69, "launch again")
    assert "there" not in stop.err
    (out / "result.json").write_text(json.dumps({"outcome": "preempted"}))
    assert status(out)["state"] == "preempted"


def journal_line(attempt, kind, **fields):
    return json.dumps({"ts": "2026-11-30T04:05:06.000000Z", "mono_s": 1.5, "attempt": attempt, "kind": kind, **fields}, separators=(",", ":")) + "\n"


def test_status_names_the_newest_attempt_before_its_first_step(tmp_path):
    out = run_directory(tmp_path)
    with open(out / "events.jsonl", "a") as events:
        events.write(journal_line(1, "step", step=7, loss=0.5))
        events.write(journal_line(1, "failure", rank=0))
        events.write(journal_line(2, "start", run_id="r"))
    assert (status(out)["attempt"], status(out)["step"]) == (2, 7)
    with open(out / "events.jsonl", "a") as events:
        events.write(journal_line(3, "step", step=8, loss=0.5))
        events.write(journal_line(3, "step", step=9, loss=0.5)[:-20])  # torn by a kill
    assert (status(out)["attempt"], status(out)["step"]) == (3, 8)


def test_a_launch_that_is_ended_while_it_watches_a_lock_leaves_nothing(tmp_path):
    spec = gp.mlp_spec(tmp_path)
    out = run_directory(tmp_path, lock=json.dumps(ELSEWHERE))
    before = gp.tree(out)
    job = gp.Job(gp.GPUTRAIN, "launch", spec, env=FAKE)
    time.sleep(1.0)
    os.kill(job.process.pid, signal.SIGTERM)
    job.finish(10)
    assert gp.tree(out) == before


@pytest.mark.parametrize("name", ["spec.yaml", "result.json", "plan.json"])
def test_somebodys_directory_is_not_overwritten(tmp_path, name):
    spec = gp.mlp_spec(tmp_path)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / name).write_text("precious")
    before = gp.tree(tmp_path / "out")
    for args in ([], ["--dry-run"], ["--resume", "never"]):
        refused(gp.launch(spec, *args, env=FAKE), 64, f"{spec}:2:", "output", name, "choose a new or empty directory")
    assert gp.tree(tmp_path / "out") == before
    assert gp.launch(spec, "--smoke", env=FAKE).code == 0


def test_a_scheduler_may_write_its_log_beside_the_run(tmp_path):
    spec = gp.mlp_spec(tmp_path)
    (tmp_path / "out/logs").mkdir(parents=True)
    (tmp_path / "out/logs/slurm-17.out").write_text("mine")
    assert gp.launch(spec, env=FAKE).code == 0
    assert (tmp_path / "out/logs/slurm-17.out").read_text() == "mine"
    logs = gp.run("logs", tmp_path / "out")
    assert logs.code == 0, logs.err
    refused(gp.run("logs", tmp_path / "out", "--rank", "7"), 2, "no such log", "attempts here: attempt-0001")
    (tmp_path / "out/logs/attempt-10000").mkdir()
    (tmp_path / "out/logs/attempt-10000/rank-00000.log").write_text("newest")
    (tmp_path / "out/logs/attempt-9999").mkdir()
    assert gp.run("logs", tmp_path / "out").out == "newest"


def test_checkpoints_may_lie_on_a_disk_of_their_own(tmp_path):
    spec = gp.mlp_spec(tmp_path)
    (tmp_path / "disk").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out/checkpoints").symlink_to(tmp_path / "disk")
    job = gp.launch(spec)
    assert job.code == 0, job.err
    assert list((tmp_path / "disk").glob("step-*"))


@pytest.mark.parametrize("output, words", [("~/x", "~ is not expanded"), ("/", "root directory"), ("/tmp/..", "root directory")])
def test_an_output_that_cannot_be_meant(tmp_path, output, words):
    refused(gp.launch(gp.mlp_spec(tmp_path), "--set", f"output={output}", cwd=tmp_path, env=FAKE), 64, words)
    assert not (tmp_path / "~").exists()


@pytest.mark.parametrize("name", ["events.jsonl", "plan.json", "spec.yaml", "lock"])
def test_a_pipe_in_the_place_of_a_file_hangs_nothing(tmp_path, name):
    spec = gp.mlp_spec(tmp_path)
    assert gp.launch(spec, env=FAKE).code == 0
    (tmp_path / "out" / name).unlink(missing_ok=True)
    os.mkfifo(tmp_path / "out" / name)
    refused(gp.launch(spec, timeout=20, env=FAKE), 73, name, "it is a pipe, not a file")
    if name in ("events.jsonl", "lock"):
        refused(gp.run("status", tmp_path / "out", timeout=20), 73, "it is a pipe")


def test_a_pipe_in_the_place_of_a_manifest_is_a_checkpoint_that_does_not_verify(tmp_path):
    spec = gp.mlp_spec(tmp_path)
    assert gp.launch(spec).code == 0
    (manifest,) = (tmp_path / "out/checkpoints").glob("step-*/manifest.json")
    manifest.unlink()
    os.mkfifo(manifest)
    refused(gp.launch(spec, "--set", "train.epochs=2", timeout=20), 74, "it is a pipe, not a file")


def test_a_lock_that_is_a_link_to_nothing(tmp_path):
    spec = gp.mlp_spec(tmp_path)
    out = run_directory(tmp_path)
    (out / "lock").symlink_to(tmp_path / "nothing")
    refused(gp.launch(spec, env=FAKE), 73, "a symbolic link, not a gputrain lock", "remove it")


def test_json_nested_without_end_is_no_record(tmp_path):
    """Printing such a value recurses: it was a segmentation fault."""
    deep = "[" * 200_000 + "]" * 200_000
    out = run_directory(tmp_path, **{"result.json": f'{{"outcome": {deep}}}'})
    with open(out / "events.jsonl", "a") as events:
        events.write(f'{{"kind": "eval", "a": {deep}}}\n')
    assert status(out)["run_id"] == "r"
    (out / "plan.json").write_text(deep)
    spec = gp.mlp_spec(tmp_path)
    assert gp.launch(spec, env=FAKE).code == 0


def test_status_of_a_long_run_reads_its_head_and_its_tail(tmp_path):
    out = run_directory(tmp_path)
    filler = "x" * 100_000
    with open(out / "events.jsonl", "a") as events:
        for step in range(1, 801):  # 80 MB
            events.write(journal_line(1, "step", step=step, filler=filler))
    seen = status(out)
    assert (seen["run_id"], seen["world_size"], seen["step"]) == ("r", 2, 800)


def test_numbers_below_the_first_are_refused(tmp_path):
    spec = gp.mlp_spec(tmp_path)
    assert gp.launch(spec, env={**FAKE, "FAKE_WORKER_SCRIPT": json.dumps({"*": [{"print": "line\n", "times": 5}, *ENDLESS[:3], {"checkpoint": True, "why": "last"}, {"done": {}}, {"wait": "release"}, {"exit": 0}]})}).code == 0
    out = tmp_path / "out"
    assert gp.run("logs", out, "--tail", "2").out.count("line") == 2
    assert gp.run("logs", out, env={"GPUTRAIN_TAIL": "2"}).out.count("line") == 2
    for flag in ("tail", "attempt", "rank"):
        refused(gp.run("logs", out, f"--{flag}", "-3"), 2, f"--{flag}", "-3")
        refused(gp.run("logs", out, env={f"GPUTRAIN_{flag.upper()}": "-3"}), 2, f"--{flag}", "-3")
        refused(gp.run("logs", out, f"--{flag}", "three"), 2)
    refused(gp.run("logs", out, "--tail", "0"), 2)
    refused(gp.launch(spec, "--max-restarts", "-1"), 64, "--max-restarts")
    refused(gp.launch(spec, "--nproc-per-node", "-1"), 64, "--nproc-per-node")
    refused(gp.launch(spec, "--grace", "-5s"), 64, "--grace")


def test_flags_of_status_have_variables_too(tmp_path):
    out = run_directory(tmp_path)
    assert json.loads(gp.run("status", out, env={"GPUTRAIN_JSON": "1"}).out)["run_id"] == "r"


@pytest.mark.parametrize("files", [4, 16, 55])
def test_too_few_open_files_are_told_as_that(tmp_path, files):
    spec = gp.mlp_spec(tmp_path)
    job = gp.Job("bash", "-c", f"ulimit -n {files}; exec {gp.GPUTRAIN} launch {spec} --max-restarts 0", env=FAKE).finish(30)
    refused(job, 69, f"only {files} files may be open at once, a run needs 56", "ulimit -n 1024")
    assert gp.tree(tmp_path / "out") is None
    job = gp.Job("bash", "-c", f"ulimit -n {max(files, 16)}; exec {gp.GPUTRAIN} launch {spec} --dry-run", env=FAKE).finish(30)
    assert job.code == 0, job.err


def test_many_ranks_need_more_open_files_than_is_usual(tmp_path):
    spec = gp.mlp_spec(tmp_path, ranks=300, samples=600, train="epochs: 1, global_batch: 300")
    job = gp.Job("bash", "-c", f"ulimit -n 1024; exec {gp.GPUTRAIN} launch {spec} --max-restarts 0", env=FAKE).finish(30)
    refused(job, 69, "only 1024 files may be open at once, a run needs 1248", "ulimit -n 1248")


def test_as_many_open_files_as_are_asked_for_are_enough(tmp_path):
    spec = gp.mlp_spec(tmp_path)
    job = gp.Job("bash", "-c", f"ulimit -n 56; exec {gp.GPUTRAIN} launch {spec}").finish(30)
    assert job.code == 0, job.err

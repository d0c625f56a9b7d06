"""The commands as a user sees them: streams, golden command list, JSON, status, logs and stop."""
import json
import os
import pathlib
import pty
import re
import subprocess
import time

import jsonschema
import pytest
import yaml

from support import gp

GOLDEN = gp.ROOT / "tests/golden/cli.txt"


def surface():
    """Every command with its flags, from --help."""
    commands = re.findall(r"^  (\w+) ", gp.run("--help").out.split("Subcommands:")[1], re.M)
    lines = []
    for command in commands:
        help_text = gp.run(command, "--help").out
        flags = sorted(set(re.findall(r"(?<![\w-])(--[a-z][a-z-]*)", help_text)) - {"--help"})
        lines.append(" ".join([command, *flags]))
    return "\n".join(lines) + "\n"


def test_the_command_line_is_what_the_golden_file_lists():
    assert surface() == GOLDEN.read_text()


def test_version_and_streams():
    job = gp.run("version")
    assert job.code == 0 and re.fullmatch(r"gputrain \d+\.\d+\.\d+\n", job.out) and job.err == ""


def test_flags_take_dashes_and_underscores(tmp_path):
    spec = gp.mlp_spec(tmp_path)
    for flag in ("--nproc-per-node", "--nproc_per_node"):
        job = gp.launch(spec, flag, "1", "--dry-run", "--json")
        assert job.code == 0, job.err
        assert json.loads(job.out)["plan"]["launch"]["world_size"] == 1


def test_precedence_flag_environment_file_default(tmp_path):
    spec = gp.mlp_spec(tmp_path, launch="grace: 7s")

    def grace(*args, env=None):
        job = gp.launch(spec, "--dry-run", "--json", *args, env=env)
        assert job.code == 0, job.err
        (setting,) = [s for s in json.loads(job.out)["settings"] if s["key"] == "launch.grace"]
        return setting["value"], setting["origin"]

    assert grace() == ("7s", f"{spec}:4")
    assert grace(env={"GPUTRAIN_GRACE": "8s"}) == ("8s", "GPUTRAIN_GRACE")
    assert grace("--grace", "9s", env={"GPUTRAIN_GRACE": "8s"}) == ("9s", "--grace")


def test_a_variable_of_the_environment_counts_for_the_command_that_has_it(tmp_path):
    spec = gp.mlp_spec(tmp_path)
    assert gp.run("validate", spec, env={"GPUTRAIN_RANK": "x"}).code == 0
    refused = gp.run("logs", tmp_path, env={"GPUTRAIN_RANK": "x"})
    assert refused.code == 2 and "--rank" in refused.err


def test_an_unknown_variable_of_ours_is_told_with_the_nearest_name(tmp_path):
    job = gp.run("validate", gp.mlp_spec(tmp_path), env={"GPUTRAIN_MAX_RESTART": "3", "GPUTRAIN_QUUX": "1", "GPUTRAIN_GRACE": "9s"})
    assert job.code == 0
    assert [line for line in job.err.splitlines() if "environment variable" in line] == [
        "notice: the environment variable GPUTRAIN_MAX_RESTART means nothing to gputrain; did you mean GPUTRAIN_MAX_RESTARTS?",
        "notice: the environment variable GPUTRAIN_QUUX means nothing to gputrain",
    ]


@pytest.mark.parametrize("arguments", [["--help"], ["launch", "--help"], ["--version"], ["init"]])
def test_output_that_cannot_be_written_is_no_success(arguments):
    with open("/dev/full", "w") as full:
        job = subprocess.run([gp.GPUTRAIN, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, timeout=20)
    assert job.returncode == 73 and "No space left on device" in job.stderr


@pytest.mark.parametrize("arguments", [["schema"], ["explain"], ["init"], ["--help"]])
def test_a_reader_that_goes_away_is_no_failure(arguments):
    ours, theirs = os.pipe()
    os.close(ours)
    job = subprocess.run([gp.GPUTRAIN, *arguments], stdout=theirs, stderr=subprocess.PIPE, text=True, timeout=20)
    os.close(theirs)
    assert (job.returncode, job.stderr) == (0, "")


def test_an_unknown_command_is_named():
    job = gp.run("launhc")
    assert job.code == 2 and "there is no command launhc" in job.err and "did you mean launch?" in job.err


def test_an_endless_spec_is_refused():
    assert "larger than 16 MiB" in gp.run("validate", "/dev/zero", timeout=20).err


def test_paths_that_no_file_can_have_are_told(tmp_path):
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    for path in ("x" * 300, loop):
        assert gp.run("validate", path).code == 64
        assert gp.run("status", path).code == 2


def test_dry_run_starts_nothing_and_shows_the_batch_arithmetic(tmp_path):
    spec = gp.mlp_spec(tmp_path, ranks=3, train="epochs: 1, global_batch: 16, micro_batch: 4")
    job = gp.launch(spec, "--dry-run")
    assert job.code == 0 and not (tmp_path / "out").exists()
    assert re.search(r"rank\s+host\s+device", job.out), job.out
    plan = json.loads(gp.launch(spec, "--dry-run", "--json").out)
    assert [(rank["begin"], rank["end"]) for rank in plan["ranks"]] == [(0, 5), (5, 10), (10, 16)]
    assert [rank["micro_batches"] for rank in plan["ranks"]] == [[4, 1], [4, 1], [4, 2]]
    strace = subprocess.run(["strace", "-f", "-e", "trace=connect,execve", gp.GPUTRAIN, "launch", str(spec), "--dry-run"], capture_output=True, text=True)
    assert strace.stderr.count("execve(") == 1 and "connect(" not in strace.stderr, strace.stderr


def test_init_validates_and_schema_accepts_the_configs(tmp_path):
    schema = json.loads(gp.run("schema").out)
    jsonschema.Draft202012Validator.check_schema(schema)
    example = gp.write_spec(tmp_path / "example.yaml", gp.run("init").out)
    job = gp.run("validate", example)
    assert job.code == 0, job.err
    for path in [example, *(gp.ROOT / "configs").glob("*.yaml")]:
        jsonschema.validate(yaml.safe_load(path.read_text()), schema)
        assert gp.run("validate", path).code == 0, path
    broken = yaml.safe_load(example.read_text())
    broken["train"]["golbal_batch"] = 1
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(broken, schema)


def test_explain():
    assert "optimizer steps" in gp.run("explain", "train.max_steps").out or gp.run("explain", "train.max_steps").code == 0
    job = gp.run("explain", "train.epoch")
    assert job.code == 2 and "train.epochs" in job.err
    assert "adamw" in gp.run("explain", "adamw").out


def test_status_logs_and_stop(tmp_path):
    spec = gp.mlp_spec(tmp_path, samples=64, train="epochs: 100000, global_batch: 16")
    job = gp.Job(gp.GPUTRAIN, "launch", spec)
    out = tmp_path / "out"
    try:
        gp.wait_until(lambda: gp.events(out, "step"), what="the first step")
        status = json.loads(gp.run("status", out, "--json").out)
        assert status["state"] == "running" and status["world_size"] == 2
        assert sorted(rank["pid"] for rank in status["ranks"]) == job.pids("--slot")
        assert "running" in gp.run("status", out).out
        assert gp.run("logs", out, "--rank", "1").code == 0
        stop = gp.run("stop", out)
        assert stop.code == 0, stop.err
        job.finish(10)
    finally:
        job.kill_everything()
    assert job.code == 77, job.err
    job.wait_for_nothing_left()
    result = gp.result(out)
    assert result["outcome"] == "stopped" and result["resumable"] is True
    assert gp.checkpoints(out)[-1] == gp.events(out, "step")[-1]["step"], "it saved what it had"
    assert json.loads(gp.run("status", out, "--json").out)["state"] == "stopped"
    assert not (out / "lock").exists()


def test_stop_now_does_not_save(tmp_path):
    spec = gp.mlp_spec(tmp_path, samples=64, train="epochs: 100000, global_batch: 16")
    job = gp.Job(gp.GPUTRAIN, "launch", spec)
    try:
        gp.wait_until(lambda: gp.events(tmp_path / "out", "step"), what="the first step")
        assert gp.run("stop", tmp_path / "out", "--now").code == 0
        job.finish(10)
    finally:
        job.kill_everything()
    assert job.code == 77
    assert gp.checkpoints(tmp_path / "out") == []
    job.wait_for_nothing_left()


def test_smoke_is_quick_and_leaves_nothing(tmp_path):
    for args in ([], [gp.ROOT / "configs/fashion_mnist.yaml"]):
        job = gp.run("launch", *args, "--smoke", cwd=tmp_path)
        assert job.code == 0, job.err
        assert job.seconds < 15  # the 5 s are measured by bench/startup; this machine may be busy
        job.wait_for_nothing_left()
    assert list(tmp_path.iterdir()) == []


def test_eval_reports_every_sample_once_and_writes_nothing(tmp_path):
    spec = gp.mlp_spec(tmp_path, samples=64, val=21, evaluate="{every: 1 epoch}")
    assert gp.launch(spec).code == 0
    trained = gp.events(tmp_path / "out", "eval")[-1]
    before = gp.tree(tmp_path / "out")
    for world in ("1", "2", "3"):
        job = gp.run("eval", spec, "--nproc-per-node", world)
        assert job.code == 0, job.err
        report = json.loads(job.out)
        assert report["samples"] == 21
        assert report["accuracy"] == trained["accuracy"]
        assert report["loss"] == pytest.approx(trained["loss"], rel=1e-6)
    assert gp.tree(tmp_path / "out") == before
    assert gp.run("eval", spec, "--checkpoint", str(tmp_path / "nothing")).code == 74


def test_no_colour_and_few_lines_off_a_terminal(tmp_path):
    spec = gp.mlp_spec(tmp_path, samples=64, train="max_steps: 300, global_batch: 16")
    job = gp.launch(spec)
    assert job.code == 0
    assert "\x1b" not in job.err and "\r" not in job.err
    assert len([line for line in job.err.splitlines() if " step " in line]) < 20
    assert job.out == ""


def test_a_progress_bar_on_a_terminal(tmp_path):
    spec = gp.mlp_spec(tmp_path, samples=64, train="max_steps: 600, global_batch: 16")
    master, slave = pty.openpty()
    process = subprocess.Popen([gp.GPUTRAIN, "launch", str(spec)], stdin=subprocess.DEVNULL, stdout=slave, stderr=slave, start_new_session=True)
    os.close(slave)
    seen = b""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            chunk = os.read(master, 65536)
        except OSError:
            break
        if not chunk:
            break
        seen += chunk
    assert process.wait(10) == 0
    text = seen.decode(errors="replace")
    assert "/600" in text and "\r" in text


def test_a_reader_that_goes_away_does_not_stop_training(tmp_path):
    spec = gp.mlp_spec(tmp_path, samples=64, train="max_steps: 200, global_batch: 16")
    pipeline = f"{gp.GPUTRAIN} launch {spec} 2>&1 | head -1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", pipeline], capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines()[-1] == "0", done.stdout
    assert gp.events(tmp_path / "out", "step")[-1]["step"] == 200

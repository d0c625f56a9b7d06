"""Bad input, through the real programs: one error a cause, its exit code, file and remedy; nothing changed, nothing running."""
import gzip
import os
import pathlib
import shutil
import subprocess

import pytest

from support import gp
from support.refusal import expect_refusal, refused_before_output


# ---- data: exit 65 -----------------------------------------------------------------------------------------------------

def damage(folder, what):
    images, labels = folder / "data/train-images-idx3-ubyte", folder / "data/train-labels-idx1-ubyte"
    if what == "missing":
        images.unlink()
    elif what == "truncated":
        images.write_bytes(images.read_bytes()[:-100])
    elif what == "empty":
        images.write_bytes(b"")
    elif what == "html":
        images.write_bytes(b"<!DOCTYPE html><html><body>404 not found</body></html>")
    elif what == "gzip-that-is-not":
        images.write_bytes(b"\x1f\x8b\x08\x00" + b"not deflate data at all" * 10)
    elif what == "gzip-cut":
        packed = gzip.compress(images.read_bytes())
        images.write_bytes(packed[: len(packed) // 2])
    elif what == "counts":
        gp.write_idx(folder / "other", 32)
        shutil.copy(folder / "other/train-labels-idx1-ubyte", labels)
    elif what == "swapped":
        images.write_bytes(labels.read_bytes())
    elif what == "pickle":
        images.write_bytes(b"\x80\x04\x95" + b"\0" * 100)


@pytest.mark.parametrize("what, words", [
    ("missing", ["train-images-idx3-ubyte"]),
    ("truncated", ["train-images-idx3-ubyte", "4096", "3996"]),
    ("empty", ["empty"]),
    ("html", ["HTML"]),
    ("gzip-that-is-not", ["gzip"]),
    ("gzip-cut", ["gzip"]),
    ("counts", ["64", "32"]),
    ("swapped", ["train-images-idx3-ubyte"]),
    ("pickle", ["pickle"]),
])
def test_damaged_data_is_named(tmp_path, what, words):
    spec = gp.mlp_spec(tmp_path)
    damage(tmp_path, what)
    refused_before_output(tmp_path, spec, 65, *words)


def test_gzip_without_the_ending_is_read(tmp_path):
    spec = gp.mlp_spec(tmp_path)
    images = tmp_path / "data/train-images-idx3-ubyte"
    images.write_bytes(gzip.compress(images.read_bytes()))
    assert gp.launch(spec).code == 0


def test_tail_drop_without_a_whole_global_batch(tmp_path):
    spec = gp.mlp_spec(tmp_path, samples=10)
    refused_before_output(tmp_path, spec, 65, "10", "16", args=["--set", "data.tail=drop"])


def test_fewer_samples_than_the_global_batch_trains_and_says_so(tmp_path):
    job = gp.launch(gp.mlp_spec(tmp_path, samples=10))
    assert job.code == 0, job.err
    assert "10 samples" in job.err and "global_batch 16" in job.err, job.err
    assert [r["step"] for r in gp.events(tmp_path / "out", "step")] == [1]


# ---- sizes, names, machine: 64 and 69 ----------------------------------------------------------------------------------

@pytest.mark.parametrize("setting, code, words", [
    ("train.global_batch=1", 64, ["global_batch", "2"]),
    ("train.micro_batch=9", 64, ["micro_batch", "8"]),
    ("model.name=resnet51", 64, ["resnet51", "resnet50"]),
    ("model.args.hiden=[8]", 64, ["hiden", "hidden"]),
    ("data.transforms.train=[to_tensr]", 64, ["to_tensr", "to_tensor"]),
    ("optimizer.name=adam_w", 64, ["adam_w", "adamw"]),
    ("train.epochs=0", 64, ["train.epochs"]),
    ("launch.backend=nccl", 69, ["nccl", "GPU"]),
    ("schedule.warmup=1000 steps", 64, ["warmup"]),
    ("launch.hosts=[gpu-1:8]", 64, ["gpu-1"]),
])
def test_what_the_spec_contradicts(tmp_path, setting, code, words):
    spec = gp.mlp_spec(tmp_path)
    refused_before_output(tmp_path, spec, code, *words, args=["--set", setting], env={"CUDA_VISIBLE_DEVICES": ""})


def test_more_ranks_than_gpus(tmp_path):
    spec = gp.mlp_spec(tmp_path, ranks=8, launch="backend: nccl")
    refused_before_output(tmp_path, spec, 69, "8", "0", env={"CUDA_VISIBLE_DEVICES": "-1"})


def test_every_yaml_error_at_once_with_line_and_caret(tmp_path):
    spec = gp.write_spec(tmp_path / "bad.yaml", "name: x\nmodel: {name: mlp}\ntrain:\n  epoch: 3\n  global_batch: 0010\nopimizer: {name: adamw, lr: fast}\n")
    job = gp.launch(spec)
    assert job.code == 64
    assert "bad.yaml:4:3" in job.err and "epochs" in job.err
    assert "bad.yaml:5:17" in job.err and "0010" in job.err
    assert "bad.yaml:6:1" in job.err and "optimizer" in job.err
    assert "^" in job.err


def test_a_spec_that_is_not_there(tmp_path):
    expect_refusal(gp.launch(tmp_path / "none.yaml"), 64, "none.yaml")
    expect_refusal(gp.launch(tmp_path), 64, "directory")


# ---- programs: 126, 127, 2 ---------------------------------------------------------------------------------------------

def test_a_worker_that_is_not_there(tmp_path):
    spec = gp.mlp_spec(tmp_path)
    refused_before_output(tmp_path, spec, 127, "no-such-worker", env={"GPUTRAIN_WORKER": str(tmp_path / "no-such-worker")})


def test_a_worker_that_cannot_be_executed(tmp_path):
    spec = gp.mlp_spec(tmp_path)
    (tmp_path / "worker").write_bytes(b"\x7fELF but not really")
    (tmp_path / "worker").chmod(0o644)
    refused_before_output(tmp_path, spec, 126, "worker", env={"GPUTRAIN_WORKER": str(tmp_path / "worker")})


@pytest.mark.parametrize("args, word", [
    (["lunch"], "launch"),
    (["launch", "x.yaml", "--grase", "1s"], "--grace"),
    (["launch"], "CONFIG"),
    (["launch", "x.yaml", "--set", "lr"], "="),
    ([], "hint"),
])
def test_bad_command_lines(args, word):
    job = gp.run(*args)
    assert job.code == 2
    assert word in job.err


# ---- the output directory: 73 ------------------------------------------------------------------------------------------

def test_output_is_a_plain_file(tmp_path):
    spec = gp.mlp_spec(tmp_path)
    (tmp_path / "out").write_text("precious")
    expect_refusal(gp.launch(spec), 73, str(tmp_path / "out"))
    assert (tmp_path / "out").read_text() == "precious"


def in_mount_namespace(script, env):
    return gp.Job("unshare", "-m", "bash", "-ec", script, env=env).finish(60)


def test_output_is_read_only(tmp_path):
    spec = gp.mlp_spec(tmp_path)
    (tmp_path / "out").mkdir()
    job = in_mount_namespace(f"mount --bind {tmp_path}/out {tmp_path}/out; mount -o remount,ro,bind {tmp_path}/out; exec {gp.GPUTRAIN} launch {spec}", {})
    expect_refusal(job, 73, str(tmp_path / "out"))
    assert gp.tree(tmp_path / "out") == {}


def test_output_is_full(tmp_path):
    spec = gp.mlp_spec(tmp_path)
    disk = tmp_path / "disk"
    disk.mkdir()
    job = in_mount_namespace(
        f"mount -t tmpfs -o size=4k,nr_inodes=16 tmpfs {disk}; mkdir {disk}/out; head -c 8192 /dev/zero > {disk}/ballast || true;"
        f"set +e; {gp.GPUTRAIN} launch {spec} --set output={disk}/out; code=$?; cd {disk}; ls -d ballast out/*; exit $code", {})
    assert job.code in (73, 74), job.err
    assert "No space left" in job.err or "space" in job.err, job.err
    assert job.out.split() == ["ballast"], job.out
    job.wait_for_nothing_left()


def test_output_in_use_by_a_live_run(tmp_path):
    spec = gp.mlp_spec(tmp_path)
    once = tmp_path / "held"
    first = gp.Job(gp.GPUTRAIN, "launch", spec, env={"GPUTRAIN_INTERNAL_HOLD": "forward@2", "GPUTRAIN_INTERNAL_HOLD_ONCE": str(once)})
    try:
        gp.wait_until(once.exists, what="the first run to hold")
        before = gp.tree(tmp_path / "out")
        second = gp.launch(spec)
        expect_refusal(second, 73, str(first.process.pid))
        after = gp.tree(tmp_path / "out")
        for name in ("lock",):  # its counter moves
            before.pop(name, None), after.pop(name, None)
        assert after == before
    finally:
        first.kill_everything()
        first.finish()


# ---- checkpoints: 74 ---------------------------------------------------------------------------------------------------

def test_checkpoints_of_which_none_verifies(tmp_path):
    spec = gp.mlp_spec(tmp_path, checkpoint="{every: 2 steps}")
    assert gp.launch(spec).code == 0
    for path in (tmp_path / "out/checkpoints").glob("step-*/model.safetensors"):
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(bytes(data))
    before = gp.tree(tmp_path / "out")
    job = gp.launch(spec, "--set", "train.epochs=2")
    expect_refusal(job, 74, "model.safetensors")
    assert gp.tree(tmp_path / "out") == before


def test_a_damaged_newest_checkpoint_falls_back_by_itself(tmp_path):
    spec = gp.mlp_spec(tmp_path, checkpoint="{every: 2 steps}")
    assert gp.launch(spec).code == 0
    newest = gp.checkpoints(tmp_path / "out")[-1]
    path = tmp_path / f"out/checkpoints/step-{newest:08d}/optimizer.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    job = gp.launch(spec)
    assert job.code == 0, job.err
    assert f"step-{newest:08d}" in job.err and "optimizer.safetensors" in job.err, job.err
    assert gp.checkpoints(tmp_path / "out")[-1] == newest


@pytest.mark.parametrize("setting, word", [("train.global_batch=32", "global_batch"), ("model.args.hidden=[8]", "hidden"), ("seed=2", "seed")])
def test_a_changed_identity_is_refused_with_its_place(tmp_path, setting, word):
    spec = gp.mlp_spec(tmp_path, checkpoint="{every: 2 steps}")
    assert gp.launch(spec).code == 0
    before = gp.tree(tmp_path / "out")
    expect_refusal(gp.launch(spec, "--set", setting, "--set", "train.epochs=2"), 64, word, "--set")
    assert gp.tree(tmp_path / "out") == before


def test_changed_data_is_refused(tmp_path):
    spec = gp.mlp_spec(tmp_path, checkpoint="{every: 2 steps}")
    assert gp.launch(spec).code == 0
    gp.write_idx(tmp_path / "data", 64, seed=5)
    before = gp.tree(tmp_path / "out")
    expect_refusal(gp.launch(spec, "--set", "train.epochs=2"), 65, "data")
    assert gp.tree(tmp_path / "out") == before

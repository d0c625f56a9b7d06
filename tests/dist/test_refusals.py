"""What ends a run of real ranks by an error of its own: nothing that only looks like training, no library's text as the answer."""
import os
import signal
import struct
import time

import pytest

from support import gp


def raw_spec(folder, values, *, shape, train, model="mlp, args: {in_features: 4, hidden: [8], num_classes: 2}"):
    """A spec over raw float32 samples of `shape`, with alternating labels."""
    size = 1
    for n in shape:
        size *= n
    samples = len(values) // size
    (folder / "x").write_bytes(struct.pack(f"<{len(values)}f", *values))
    (folder / "y").write_bytes(struct.pack(f"<{samples}q", *(i % 2 for i in range(samples))))
    return gp.write_spec(folder / "spec.yaml", f"""\
name: raw
output: {folder}/out
launch: {{nproc_per_node: 2, omp_threads: 1}}
model: {{name: {model}}}
data:
  train:
    format: raw
    inputs: {{path: {folder}/x, shape: {list(shape)}, dtype: float32}}
    targets: {{path: {folder}/y, shape: [], dtype: int64}}
train: {{{train}}}
optimizer: {{name: adamw, lr: 1e-3}}
checkpoint: {{every: never}}
""")


def test_fp16_over_nan_samples_is_no_overflow(tmp_path):
    """The scaler would skip every step for ever, and the run end as done."""
    spec = raw_spec(tmp_path, [float("nan")] * 4 * 64, shape=(4,), train="epochs: 20, global_batch: 32, precision: fp16")
    job = gp.launch(spec)
    assert job.code == 1, job.err
    result = gp.result(tmp_path / "out")
    assert result["error"]["kind"] == "non_finite" and "even with a loss scale of 1 " in result["error"]["message"], result
    assert "rank 0" in result["error"]["message"] and "bf16" in result["error"]["hint"]
    assert [record["step"] for record in gp.events(tmp_path / "out", "step")] == list(range(1, 17)), "2^16 halves 16 times"
    assert gp.checkpoints(tmp_path / "out") == []


def test_fp16_without_a_single_update_is_not_done(tmp_path):
    spec = raw_spec(tmp_path, [float("nan")] * 4 * 64, shape=(4,), train="max_steps: 3, global_batch: 32, precision: fp16")
    job = gp.launch(spec)
    assert job.code == 1 and "the loss scaler skipped all 3 steps" in job.err, job.err
    assert gp.checkpoints(tmp_path / "out") == []


def test_batch_norm_over_one_sample_is_refused_before_training(tmp_path):
    values = [0.5] * 3 * 32 * 32 * 5
    spec = raw_spec(tmp_path, values, shape=(3, 32, 32), model="resnet18, args: {num_classes: 2}", train="epochs: 1, global_batch: 4")
    job = gp.launch(spec)
    assert job.code == 64, job.err
    assert job.err.count("gputrain: error:") == 1 and "step 2, the short last one of an epoch" in job.err and "data.tail: drop" in job.err, job.err
    assert gp.tree(tmp_path / "out") is None
    assert gp.launch(spec, "--set", "data.tail=drop").code == 0


def test_a_variable_that_changes_numbers_on_one_host_is_named(tmp_path):
    """cuBLAS reads it, and no switch of LibTorch shows it."""
    for variable in ("NVIDIA_TF32_OVERRIDE", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", "CUBLAS_WORKSPACE_CONFIG"):
        other = gp.worker_with(tmp_path, f'[ "$RANK" = 0 ] || export {variable}=0')
        job = gp.launch(gp.mlp_spec(tmp_path), env=other)
        assert job.code == 69, job.err
        assert job.err.count("gputrain: error:") == 1 and f"set the environment variable {variable} to the same value on every host" in job.err, job.err
        assert gp.tree(tmp_path / "out") is None
    job = gp.launch(gp.mlp_spec(tmp_path), env={"NVIDIA_TF32_OVERRIDE": "0"})
    assert job.code == 0, job.err


def test_a_model_that_no_memory_holds_is_a_typed_error(tmp_path):
    model = "mlp, args: {in_features: 4, hidden: [16000000, 16000000], num_classes: 2}"
    job = gp.launch(raw_spec(tmp_path, [0.5] * 4 * 8, shape=(4,), model=model, train="epochs: 1, global_batch: 4"),
                    "--max-restarts", "0", "--json")
    assert job.code == 1, job.err
    assert '"out_of_memory"' in job.out and "no memory left" in job.err, job.out + job.err


def test_a_relaunch_says_what_it_changes(tmp_path):
    spec = gp.mlp_spec(tmp_path, samples=64, train="epochs: 1, global_batch: 16")
    assert gp.launch(spec).code == 0
    job = gp.launch(spec, "--set", "train.epochs=2", "--set", "optimizer.lr=5e-3", "--set", "log.every=2 steps")
    assert job.code == 0, job.err
    assert "changed since the last launch: train.epochs 1 -> 2, optimizer.lr 0.002 -> 0.005, log.every auto -> 2 steps" in job.err, job.err
    changes = gp.events(tmp_path / "out", "start")[-1]["changes"]
    assert {"key": "optimizer.lr", "from": 0.002, "to": 0.005} in changes and len(changes) == 3


@pytest.mark.parametrize("model, size, words", [("mlp, args: {in_features: 64}", 10, "1 x 10 x 10"), ("small_cnn", 5, "1 x 5 x 5"), ("small_cnn", 1, "1 x 1 x 1")])
def test_images_that_the_model_does_not_take_are_refused_before_training(tmp_path, model, size, words):
    """An idx file's size is known only when it is open."""
    spec = gp.mlp_spec(tmp_path, size=size)
    job = gp.launch(spec, "--set", f"model={{name: {model}}}")
    assert job.code == 64, job.err
    assert job.err.count("gputrain: error:") == 1 and words in job.err and "data.train" in job.err and "frame #" not in job.err, job.err
    assert not (tmp_path / "out").exists()


def test_validation_images_of_another_size_are_refused_before_training(tmp_path):
    spec = gp.mlp_spec(tmp_path)
    images, labels = gp.write_idx(tmp_path / "other", 16, 9)
    job = gp.launch(spec, "--set", f"data.val={{format: idx, images: {images}, labels: {labels}}}", "--set", "data.transforms.val=[to_tensor]")
    assert job.code == 64 and "data.val" in job.err and "1 x 9 x 9" in job.err, job.err


def test_eval_without_validation_data_is_a_fault_of_the_spec(tmp_path):
    spec = gp.mlp_spec(tmp_path)
    job = gp.run("eval", spec)
    assert job.code == 64 and f"{spec}:" in job.err and "no validation data" in job.err, job.err


def test_vanished_checkpoints_are_told(tmp_path):
    spec = gp.mlp_spec(tmp_path, train="max_steps: 3, global_batch: 16")
    assert gp.launch(spec).code == 0
    (tmp_path / "out/checkpoints").rename(tmp_path / "disk")
    (tmp_path / "out/checkpoints").symlink_to(tmp_path / "not mounted")
    job = gp.launch(spec)
    assert job.code == 74 and "a link to a place that is not there" in job.err, job.err
    (tmp_path / "out/checkpoints").unlink()
    job = gp.launch(spec)
    assert job.code == 0 and "training starts over: events.jsonl tells of a checkpoint at step 3" in job.err, job.err
    assert "starts over" not in gp.launch(spec, "--set", "train.max_steps=5").err


def test_a_stop_before_the_start_is_what_result_json_tells(tmp_path):
    spec = gp.mlp_spec(tmp_path, train="max_steps: 3, global_batch: 16")
    assert gp.launch(spec).code == 0
    job = gp.Job(gp.GPUTRAIN, "launch", spec, "--set", "train.max_steps=50000")
    time.sleep(0.15)
    os.kill(job.process.pid, signal.SIGTERM)
    job.finish(20)
    assert job.code == 75, job.err
    result = gp.result(tmp_path / "out")
    assert result["outcome"] == "preempted" and result["resumable"] is True and result["saved_step"] >= 3, result

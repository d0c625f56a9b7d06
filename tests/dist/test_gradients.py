"""Through `launch`: the gradient does not depend on ranks, micro-batches or reducer, and every rank does its part of the contract.

fp64, so that what is left is a difference of formula and not of rounding. SGD, so that equal gradients stay equal parameters.
"""
import functools
import math
import operator
import pathlib
import tempfile

import pytest

from support import gp, order

GLOBAL_BATCH = 256


@functools.lru_cache(maxsize=None)
def traced_run(samples, world, micro_batches, reducer):
    """(trace records by rank, {step: {name: doubles}} of rank 0, {name: doubles} of the trained model, (pixels, labels)) of one epoch."""
    with tempfile.TemporaryDirectory() as folder:
        micro_batch = math.ceil(math.ceil(GLOBAL_BATCH / world) / micro_batches)
        spec = gp.mlp_spec(folder, samples=samples, ranks=world, precision="fp64", hidden="[12]",
                           train=f"epochs: 1, global_batch: {GLOBAL_BATCH}, micro_batch: {micro_batch}, reducer: {reducer}")
        job = gp.launch(spec, "--set", "optimizer={name: sgd, lr: 0.1}",
                        env={"GPUTRAIN_INTERNAL_TRACE": f"{folder}/trace", "GPUTRAIN_INTERNAL_TRACE_GRADIENTS": "1"})
        assert job.code == 0, job.err
        records = {rank: lines for (_, rank), lines in gp.trace(f"{folder}/trace").items()}
        gradients = {}
        for record in records[0]:
            path = f"{folder}/trace/attempt-1-rank-0.gradients-{record['step']}.safetensors"
            gradients[record["step"]] = {name: gp.doubles(data) for name, (_, _, data) in gp.read_safetensors(open(path, "rb").read()).items()}
        (checkpoint,) = pathlib.Path(folder, "out/checkpoints").glob("step-*")
        trained = {name: gp.doubles(data) for name, (_, _, data) in gp.read_safetensors((checkpoint / "model.safetensors").read_bytes()).items()}
        data = [next(pathlib.Path(folder, "data").glob(f"train-{kind}-*")).read_bytes()[head:] for kind, head in (("images", 16), ("labels", 8))]
        return records, gradients, trained, data


def relative_difference(a, b):
    scale = max(abs(x) for x in b)
    return max(abs(x - y) for x, y in zip(a, b, strict=True)) / scale


@pytest.mark.parametrize("samples", [1003, 514])  # tails of 235 and of 2: at three ranks one has no sample in the last step
@pytest.mark.parametrize("world", [1, 2, 3])
@pytest.mark.parametrize("micro_batches", [1, 2, 3, 4])
@pytest.mark.parametrize("reducer", ["c10d", "flat"])
def test_same_gradients_as_one_process_with_the_full_batch(samples, world, micro_batches, reducer):
    _, expected, *_ = traced_run(samples, 1, 1, "flat")
    _, found, *_ = traced_run(samples, world, micro_batches, reducer)
    assert found.keys() == expected.keys() and len(expected) == math.ceil(samples / GLOBAL_BATCH)
    for step, gradients in expected.items():
        assert found[step].keys() == gradients.keys()
        for name, values in gradients.items():
            assert any(values), f"step {step}: the gradient of {name} is all zero: the comparison would prove nothing"
            assert relative_difference(found[step][name], values) <= 1e-12, (step, name)


def dot(a, b):
    return sum(map(operator.mul, a, b))


def mean_gradient(model, ids, pixels, labels):
    """Of fc1, relu, fc2 and cross entropy over the samples `ids`, written out: nothing of the program is in it."""
    width, classes = len(model["fc1.bias"]), len(model["fc2.bias"])
    features = len(model["fc1.weight"]) // width
    rows1 = [model["fc1.weight"][h * features:(h + 1) * features] for h in range(width)]
    rows2 = [model["fc2.weight"][c * width:(c + 1) * width] for c in range(classes)]
    sums = {name: [0.0] * len(values) for name, values in model.items()}
    for i in ids:
        x = [pixel / 255 for pixel in pixels[i * features:(i + 1) * features]]
        hidden = [max(0.0, dot(row, x) + b) for row, b in zip(rows1, model["fc1.bias"])]
        logits = [dot(row, hidden) + b for row, b in zip(rows2, model["fc2.bias"])]
        total = sum(math.exp(z - max(logits)) for z in logits)
        errors = [math.exp(z - max(logits)) / total - (c == labels[i]) for c, z in enumerate(logits)]
        for c, error in enumerate(errors):
            sums["fc2.bias"][c] += error
            for h, value in enumerate(hidden):
                sums["fc2.weight"][c * width + h] += error * value
        for h in range(width):
            if hidden[h] == 0:
                continue
            back = sum(error * rows2[c][h] for c, error in enumerate(errors))
            sums["fc1.bias"][h] += back
            for j, value in enumerate(x):
                sums["fc1.weight"][h * features + j] += back * value
    return {name: [value / len(ids) for value in values] for name, values in sums.items()}


@pytest.mark.parametrize("samples", [1003, 514])
def test_each_gradient_is_the_mean_over_the_windows_own_samples(samples):
    """Against a reference that shares no code with the program: a fault of its formula, the same at any world size, shows only here. Plain SGD's
    parameters before a step are those after it plus LR times its gradient."""
    _, gradients, model, (pixels, labels) = traced_run(samples, 2, 2, "c10d")
    ids = order.permutation(samples, 1, 0)
    for step in sorted(gradients, reverse=True):
        model = {name: [p + 0.1 * g for p, g in zip(values, gradients[step][name], strict=True)] for name, values in model.items()}
        expected = mean_gradient(model, ids[(step - 1) * GLOBAL_BATCH:step * GLOBAL_BATCH], pixels, labels)
        for name, values in expected.items():
            assert relative_difference(gradients[step][name], values) <= 1e-9, (step, name)


@pytest.mark.parametrize("samples", [1003, 514])
@pytest.mark.parametrize("world", [1, 2, 3])
@pytest.mark.parametrize("micro_batches", [1, 3])
def test_every_rank_does_its_part(samples, world, micro_batches):
    records, *_ = traced_run(samples, world, micro_batches, "c10d")
    assert sorted(records) == list(range(world))
    ids = order.permutation(samples, 1, 0)
    counts = set()
    for step in range(math.ceil(samples / GLOBAL_BATCH)):
        window = ids[step * GLOBAL_BATCH:(step + 1) * GLOBAL_BATCH]
        for rank in range(world):
            begin, end = order.share(len(window), rank, world)
            assert records[rank][step]["step"] == step + 1
            assert records[rank][step]["ids"] == window[begin:end], (step, rank)
            counts.add(records[rank][step]["all_reduces"])
        assert len({records[rank][step]["parameters_hash"] for rank in range(world)}) == 1, f"ranks differ after step {step + 1}"
    # One bucket for this small model, whatever the accumulation; a world of one reduces nothing.
    assert counts == {0 if world == 1 else 1}


@pytest.mark.parametrize("deterministic", ["true", "false"])
def test_all_reduces_are_the_buckets_whatever_the_accumulation(tmp_path, deterministic):
    """A model of several buckets (1 MiB, then 25 MiB): the count per step is the same for 1 and 4 micro-batches. Deterministic runs keep their
    buckets; others rebuild them once, after the first step."""
    counts = {}
    for micro_batch in (16, 4):
        folder = tmp_path / str(micro_batch)
        folder.mkdir()
        spec = gp.mlp_spec(folder, samples=96, hidden="[512, 2048]",
                           train=f"max_steps: 3, global_batch: 32, micro_batch: {micro_batch}, deterministic: {deterministic}")
        job = gp.launch(spec, env={"GPUTRAIN_INTERNAL_TRACE": str(folder / "trace")})
        assert job.code == 0, job.err
        ranks = [[record["all_reduces"] for record in lines] for lines in gp.trace(folder / "trace").values()]
        assert ranks[0] == ranks[1]
        counts[micro_batch] = ranks[0]
    assert counts[4] == counts[16] and max(counts[4]) == 2, counts
    assert counts[4][1] == counts[4][2] and (deterministic == "false" or counts[4][0] == counts[4][1])


def test_augmentation_and_order_do_not_depend_on_ranks(tmp_path):
    """Without dropout the training set, order and augmentation are the same at any world size: so is the loss, to rounding."""
    losses = {}
    for world in (1, 2, 3):
        folder = tmp_path / str(world)
        folder.mkdir()
        spec = gp.mlp_spec(folder, samples=100, ranks=world, precision="fp64", train="epochs: 2, global_batch: 32",
                           transforms="[random_horizontal_flip, {random_crop: {size: 8, padding: 1}}, to_tensor]")
        job = gp.launch(spec, "--set", "optimizer={name: sgd, lr: 0.1}")
        assert job.code == 0, job.err
        losses[world] = [record["loss"] for record in gp.events(folder / "out", "step")]
    assert len(losses[1]) == 8
    for world in (2, 3):
        assert losses[world] == pytest.approx(losses[1], rel=1e-11)


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_dropout_differs_by_rank(tmp_path, dropout):
    """Identical samples, one a rank. Rank 0's mask is the one that a single rank draws; if rank 1 drew the same, two ranks' mean loss would be
    one rank's loss, as it is without dropout."""
    losses = []
    for world in (1, 2):
        folder = tmp_path / str(world)
        folder.mkdir()
        spec = gp.mlp_spec(folder, samples=2, ranks=world, dropout=dropout, hidden="[256]", train=f"max_steps: 1, global_batch: {world}", precision="fp64")
        images, labels = folder / "data/train-images-idx3-ubyte", folder / "data/train-labels-idx1-ubyte"
        first = images.read_bytes()[16:16 + 64]
        images.write_bytes(images.read_bytes()[:16] + first * 2)
        labels.write_bytes(labels.read_bytes()[:8] + b"\3\3")
        assert gp.launch(spec).code == 0
        losses.append(gp.events(folder / "out", "step")[0]["loss"])
    assert (losses[0] == pytest.approx(losses[1], rel=1e-9)) is (dropout == 0.0), losses

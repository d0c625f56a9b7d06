"""A module saved by torch.jit.script or trace in Python, trained by gputrain: as Python trains it, and its weights go back.

Every step sees the whole data set, so that its order does not matter beyond rounding; in fp64.
"""
import re

import pytest
import torch
import torchvision
from safetensors.torch import load_file

from support import gp

SAMPLES, STEPS = 16, 4


class Net(torch.nn.Module):
    """BatchNorm, a shared layer, a frozen one, a plain tensor attribute and code that depends on the mode."""

    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(8)
        self.mix = torch.nn.Conv2d(8, 8, 1)
        self.again = self.mix
        self.fixed = torch.nn.Linear(8, 8).requires_grad_(False)
        self.head = torch.nn.Linear(8, 10)
        self.shift = torch.full((1,), 0.5)

    def forward(self, x):
        x = torch.relu(self.norm(self.conv(x)))
        x = torch.relu(self.mix(x)) + self.again(x)
        if not self.training:
            x = x + self.shift
        return self.head(self.fixed(x.mean((2, 3))))


class Plain(torch.nn.Module):
    """No layer looks at a whole batch: two ranks compute what one does."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.head = torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.GroupNorm(2, 8), torch.nn.Linear(8, 10)

    def forward(self, x):
        return self.head(torch.nn.functional.silu(self.norm(self.conv(x))).mean((2, 3)))


def make(kind):
    torch.manual_seed(5)
    if kind == "plain":
        return torch.jit.script(Plain())
    if kind == "resnet18":
        return torch.jit.script(torchvision.models.resnet18(num_classes=10))
    if kind == "script":
        return torch.jit.script(Net().eval())
    return torch.jit.trace(Net().train(), torch.rand(2, 3, 32, 32), check_trace=False)


def in_python(path, inputs, labels):
    model = torch.jit.load(path).double().train()
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.05, momentum=0.9)
    for _ in range(STEPS):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(inputs.double()), labels).backward()
        optimizer.step()
    return model


@pytest.mark.parametrize("kind, ranks", [("script", 1), ("plain", 2), ("trace", 1), ("resnet18", 1)])
def test_trains_as_in_python(tmp_path, kind, ranks):
    make(kind).save(tmp_path / "m.pt")
    generator = torch.Generator().manual_seed(3)
    inputs, labels = torch.randn(SAMPLES, 3, 32, 32, generator=generator), torch.randint(10, (SAMPLES,), generator=generator)
    (tmp_path / "x").write_bytes(inputs.numpy().tobytes())
    (tmp_path / "y").write_bytes(labels.numpy().tobytes())
    spec = gp.write_spec(tmp_path / "spec.yaml", f"""\
name: torchscript
output: {tmp_path}/out
launch: {{nproc_per_node: {ranks}, omp_threads: 1}}
model: {{torchscript: {tmp_path}/m.pt}}
data:
  train: {{format: raw, inputs: {{path: {tmp_path}/x, shape: [3, 32, 32], dtype: float32}}, targets: {{path: {tmp_path}/y, shape: [], dtype: int64}}}}
train: {{max_steps: {STEPS}, global_batch: {SAMPLES}, precision: fp64}}
optimizer: {{name: sgd, lr: 0.05, momentum: 0.9}}
schedule: {{name: constant}}
checkpoint: {{every: 3 steps}}
""")
    job = gp.launch(spec, timeout=120)
    assert job.code == 0, job.err
    ours = load_file(tmp_path / f"out/checkpoints/step-{STEPS:08d}/model.safetensors")
    theirs = in_python(tmp_path / "m.pt", inputs, labels)
    expected = {name: tensor for name, tensor in [*theirs.named_parameters(), *theirs.named_buffers()]}
    assert ours.keys() == expected.keys()
    for name, tensor in expected.items():
        difference = (ours[name] - tensor.detach()).abs().max() / tensor.detach().abs().max().clamp_min(1e-30)
        assert difference <= 1e-10, f"{name}: {difference}"
    for name in ("fixed.weight", "fixed.bias"):
        if name in ours:
            assert torch.equal(ours[name], expected[name].detach()), "saved as frozen"
    missing, unexpected = torch.jit.load(tmp_path / "m.pt").load_state_dict(ours, strict=False)
    assert not unexpected and all(name.startswith("again.") for name in missing), "the weights go back"


def idx_spec(folder, model, **options):
    """A spec that trains `model` on grey images of 8 x 8 pixels."""
    model.save(folder / "m.pt")
    path = gp.mlp_spec(folder, **options)
    return gp.write_spec(path, re.sub(r"(?m)^model: .*$", f"model: {{torchscript: {folder}/m.pt}}", path.read_text()))


class Flat(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm, self.drop, self.head = torch.nn.Linear(64, 16), torch.nn.LayerNorm(16), torch.nn.Dropout(0.2), torch.nn.Linear(16, 10)

    def forward(self, x):
        return self.head(self.drop(torch.nn.functional.gelu(self.norm(self.first(x.flatten(1))))))


@pytest.mark.parametrize("kind", ["script", "trace"])
def test_resumes_to_the_bit(tmp_path, kind):
    """The JIT's profiling executor would optimize after some passes, and start counting anew after a resume."""
    torch.manual_seed(5)
    model = torch.jit.script(Flat()) if kind == "script" else torch.jit.trace(Flat(), torch.rand(2, 1, 8, 8), check_trace=False)
    whole, parts = whole_and_in_parts(tmp_path, model)
    assert whole == parts


def whole_and_in_parts(folder, model):
    """The weights' files of six steps in one launch, and in two."""
    specs = {}
    for name in ("whole", "parts"):
        (folder / name).mkdir()
        specs[name] = idx_spec(folder / name, model, samples=64, val=32, train="max_steps: 6, global_batch: 16", checkpoint="{every: 3 steps}", evaluate="{every: 3 steps}")
    assert gp.launch(specs["whole"]).code == 0
    assert gp.launch(specs["parts"], "--set", "train.max_steps=3").code == 0
    job = gp.launch(specs["parts"])
    assert job.code == 0, job.err
    return (gp.checkpoint_files(folder / name / "out", 6)["model.safetensors"] for name in ("whole", "parts"))


class Assigning(torch.nn.Module):
    """Running statistics as people write them: a new tensor each time, which the backward pass needs as it was."""

    def __init__(self):
        super().__init__()
        self.first, self.head = torch.nn.Linear(64, 16), torch.nn.Linear(16, 10)
        self.register_buffer("avg", torch.ones(16))
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        hidden = self.first(x.flatten(1))
        if self.training:
            self.avg = 0.9 * self.avg + 0.1 * hidden.detach().abs().mean(0)
            self.calls = self.calls + 1
        return self.head(hidden * self.avg)


def test_buffers_that_the_script_assigns_are_saved_broadcast_and_resumed(tmp_path):
    torch.manual_seed(5)
    whole, parts = whole_and_in_parts(tmp_path, torch.jit.script(Assigning()))
    assert whole == parts
    saved = gp.read_safetensors(whole)
    assert int.from_bytes(saved["calls"][2], "little") == 6, "calls of before the run do not count"
    assert saved["avg"][2] != torch.ones(16).numpy().tobytes()


class Colour(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.head = torch.nn.Conv2d(3, 4, 3), torch.nn.Linear(4, 10)

    def forward(self, x):
        return self.head(self.conv(x).mean((2, 3)))


class Normed(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm, self.head = torch.nn.Linear(64, 16), torch.nn.BatchNorm1d(16), torch.nn.Linear(16, 10)

    def forward(self, x):
        return self.head(self.norm(self.first(x.flatten(1))))


class Unused(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.head, self.spare = torch.nn.Linear(64, 10), torch.nn.Linear(64, 10)

    def forward(self, x):
        return self.head(x.flatten(1))


class Greedy(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.head = torch.nn.Linear(64, 10)

    def forward(self, x):
        if self.training and x.size(0) > 2:
            return torch.ones([1 << 50]) + self.head(x.flatten(1))[0, 0]
        return self.head(x.flatten(1))


@pytest.mark.parametrize("module, options, words", [
    (Colour, {}, "which are 1 x 8 x 8 after their transforms: Given groups=1, weight of size [4, 3, 3, 3], expected input[1, 1, 8, 8] to have 3 channels"),
    (Normed, {"samples": 33, "train": "epochs: 1, global_batch: 16"}, "cannot train on one sample alone"),
    (Unused, {}, "no gradient reaches 2 trained parameters, which the model's output does not depend on: spare.weight, spare.bias"),
])
def test_what_does_not_fit_is_refused_before_training(tmp_path, module, options, words):
    job = gp.launch(idx_spec(tmp_path, torch.jit.script(module()), **options))
    assert job.code == 64, job.err
    assert job.err.count("gputrain: error:") == 1 and words in job.err and "TorchScript interpreter" not in job.err, job.err
    assert gp.tree(tmp_path / "out") is None


def test_unused_parameters_train_as_the_hint_says(tmp_path):
    spec = idx_spec(tmp_path, torch.jit.script(Unused()), checkpoint="{every: 1 epoch}")
    job = gp.launch(spec, "--set", "model.freeze=[spare.weight, spare.bias]")
    assert job.code == 0, job.err
    before = {name: tensor.detach().numpy().tobytes() for name, tensor in torch.jit.load(tmp_path / "m.pt").named_parameters()}
    after = gp.read_safetensors(gp.checkpoint_files(tmp_path / "out")["model.safetensors"])
    assert after["spare.weight"][2] == before["spare.weight"] and after["head.weight"][2] != before["head.weight"]


def test_exhausted_memory_within_a_script_has_its_own_word(tmp_path):
    job = gp.launch(idx_spec(tmp_path, torch.jit.script(Greedy())), "--max-restarts", "0")
    assert job.code == 1, job.err
    error = gp.result(tmp_path / "out")["error"]
    assert error["kind"] == "out_of_memory" and "no memory left for a micro-batch of 8 on rank" in error["message"], error
    assert "train.micro_batch" in error["hint"], error


def test_hosts_with_other_files_are_refused(tmp_path):
    """The same parameters, another function: each rank would train its own."""
    class Squashed(Flat):
        def forward(self, x):
            return self.head(self.drop(torch.tanh(self.norm(self.first(x.flatten(1))))))

    for rank, module in enumerate((Flat, Squashed)):
        (tmp_path / str(rank)).mkdir()
        torch.manual_seed(5)
        torch.jit.script(module()).save(tmp_path / str(rank) / "m.pt")
    spec = gp.mlp_spec(tmp_path)
    spec = gp.write_spec(spec, re.sub(r"(?m)^model: .*$", "model: {torchscript: /proc/self/cwd/m.pt}", spec.read_text()))
    job = gp.launch(spec, cwd=tmp_path / "0", env=gp.worker_with(tmp_path, f"cd {tmp_path}/$RANK"))
    assert job.code == 65, job.err
    assert job.err.count("gputrain: error:") == 1 and "m.pt differs between the ranks: rank 1 has `" in job.err and "copy the same file to every host" in job.err, job.err
    assert gp.tree(tmp_path / "out") is None


class Picky(torch.nn.Module):
    """Fails on what only a step sees: more than two samples."""

    def __init__(self):
        super().__init__()
        self.head = torch.nn.Linear(4, 3)

    def forward(self, x):
        if x.size(0) > 2:
            raise ValueError("no way")
        return self.head(x)


class Words(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.head = torch.nn.Embedding(16, 4), torch.nn.Linear(4, 3)

    def forward(self, x):
        return self.head(self.table(x).mean(1))


def small_spec(folder, module, more="", dtype="float32", train="max_steps: 2, global_batch: 8", top=""):
    torch.jit.script(module).save(str(folder / "m.pt"))
    values = torch.arange(8 * 4) % 16
    (folder / "x.bin").write_bytes(values.to(getattr(torch, dtype)).numpy().tobytes())
    (folder / "y.bin").write_bytes((torch.arange(8) % 3).numpy().tobytes())
    data = (f"{{format: raw, inputs: {{path: {folder}/x.bin, shape: [4], dtype: {dtype}}}, "
            f"targets: {{path: {folder}/y.bin, shape: [], dtype: int64}}}}")
    return gp.write_spec(folder / "spec.yaml", f"""\
name: small
output: {folder}/out
launch: {{nproc_per_node: 1, omp_threads: 1, max_restarts: 0}}
model: {{torchscript: {folder}/m.pt}}
data: {{train: {data}, val: {data}{more}}}
train: {{{train}}}
optimizer: {{name: adamw, lr: 1e-2}}
{top}
""")


def test_a_model_that_fails_in_a_step_is_not_our_fault_and_its_samples_are_named(tmp_path):
    job = gp.launch(small_spec(tmp_path, Picky()))
    assert job.code == 64 and "the model fails on step 1, samples" in job.err and "no way" in job.err, job.err
    assert "frame #" not in job.err and "Traceback" not in job.err, job.err


def test_mixing_of_words_and_a_top_k_of_all_classes_are_refused_before_training(tmp_path):
    job = gp.launch(small_spec(tmp_path, Words(), ", mixup: 0.3", dtype="int64"))
    assert job.code == 64 and "data.mixup mixes floats" in job.err and not (tmp_path / "out/events.jsonl").exists(), job.err
    job = gp.launch(small_spec(tmp_path, Words(), dtype="int64", top="evaluate: {top_k: 3}"))
    assert job.code == 64 and "always among the 3 largest of 3 classes" in job.err, job.err
    assert gp.launch(small_spec(tmp_path, Words(), dtype="int64", top="evaluate: {top_k: 2}")).code == 0


def test_another_file_of_the_same_shapes_is_told_when_a_run_continues(tmp_path):
    assert gp.launch(small_spec(tmp_path, torch.nn.Sequential(torch.nn.Linear(4, 3)))).code == 0
    spec = small_spec(tmp_path, torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU()), train="max_steps: 4, global_batch: 8")
    job = gp.launch(spec)
    assert job.code == 0 and "model_file" in job.err, job.err

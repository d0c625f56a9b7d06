"""The plug-in of examples/plugin: built as its README says, trained through `launch` on two ranks, resumed, refused."""
import pathlib
import re
import subprocess

import pytest

from support import gp

EXAMPLE = gp.ROOT / "examples/plugin"


def libtorch():
    """The LibTorch that the worker under test runs with."""
    libraries = subprocess.run(["ldd", gp.BUILD / "gputrain-worker"], text=True, capture_output=True, check=True).stdout
    return pathlib.Path(re.search(r"libtorch_cpu\.so => (\S+)", libraries).group(1)).parent.parent


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    build = tmp_path_factory.mktemp("plugin") / "build"
    for command in (["cmake", "-S", EXAMPLE, "-B", build, f"-DGPUTRAIN_LIBTORCH={libtorch()}"], ["cmake", "--build", build]):
        done = subprocess.run([str(word) for word in command], text=True, capture_output=True, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr
    return build / "libconv_mixer.so"


def spec(folder, library, args="in_channels: 1, num_classes: 10, width: 8, depth: 2, kernel: 3, patch: 2", **options):
    path = gp.mlp_spec(folder, **options)
    text, count = re.subn(r"(?m)^model: .*$", f"model: {{plugin: {library}, args: {{{args}}}}}", path.read_text())
    assert count == 1
    return gp.write_spec(path, text)


def test_the_example_trains_and_resumes(tmp_path, library):
    path = spec(tmp_path, library, samples=96, val=32, train="max_steps: 6, global_batch: 16", checkpoint="{every: 3 steps}", evaluate="{every: 3 steps}")
    job = gp.launch(path)
    assert job.code == 0, job.err
    assert gp.checkpoints(tmp_path / "out") == [3, 6]
    names = gp.read_safetensors(gp.checkpoint_files(tmp_path / "out")["model.safetensors"])
    assert "patches.conv.weight" in names and "block1_channels.norm.running_var" in names and "head.bias" in names
    whole = gp.checkpoint_files(tmp_path / "out", 6)["model.safetensors"]

    # The same six steps in two launches: to the bit.
    again = tmp_path / "again"
    again.mkdir()
    path = spec(again, library, samples=96, val=32, train="max_steps: 6, global_batch: 16", checkpoint="{every: 3 steps}", evaluate="{every: 3 steps}")
    assert gp.launch(path, "--set", "train.max_steps=3").code == 0
    job = gp.launch(path)
    assert job.code == 0, job.err
    assert gp.checkpoint_files(again / "out", 6)["model.safetensors"] == whole


def test_the_examples_own_spec_is_valid(tmp_path, library):
    job = gp.run("validate", EXAMPLE / "conv_mixer.yaml", "--set", f"model.plugin={library}")
    assert job.code == 0, job.err


def test_what_the_plugin_refuses_is_one_error(tmp_path, library):
    for args, words in (("in_channels: 1, num_classes: 10, kernel: 4", "kernel must be odd, got 4"),
                        ("in_channels: 1, num_clases: 10", "argument num_classes is missing"),
                        ("in_channels: 1, num_classes: 10, depht: 2", "there is no argument depht")):
        job = gp.launch(spec(tmp_path, library, args=args))
        assert job.code == 64, job.err
        assert job.err.count("gputrain: error:") == 1 and words in job.err and "libconv_mixer.so" in job.err, job.err
        assert gp.tree(tmp_path / "out") is None
        job.wait_for_nothing_left()


def test_a_library_of_another_version_is_refused(tmp_path, library):
    other = tmp_path / "libother.so"
    other.write_bytes(library.read_bytes().replace(b"LibTorch 2.", b"LibTorch 1."))
    job = gp.launch(spec(tmp_path, other))
    assert job.code == 64, job.err
    assert "was built for another version" in job.err and "LibTorch 1." in job.err and "LibTorch 2." in job.err, job.err
    assert gp.tree(tmp_path / "out") is None


def test_a_frozen_plugin_layer_stays(tmp_path, library):
    path = spec(tmp_path, library, train="max_steps: 2, global_batch: 16", checkpoint="{every: 1 step}", extra="")
    path = gp.write_spec(path, path.read_text().replace("model: {", 'model: {freeze: ["patches.conv.*"], '))
    job = gp.launch(path)
    assert job.code == 0, job.err
    first, last = (gp.read_safetensors(gp.checkpoint_files(tmp_path / "out", step)["model.safetensors"]) for step in (1, 2))
    assert first["patches.conv.weight"] == last["patches.conv.weight"]
    assert first["head.weight"] != last["head.weight"]
    assert not [name for name in gp.read_safetensors(gp.checkpoint_files(tmp_path / "out", 2)["optimizer.safetensors"]) if "patches.conv" in name]

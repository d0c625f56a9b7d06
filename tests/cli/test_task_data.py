"""Bad data of text, segmentation and regression, through the real programs: refused before training, each by one error with its place."""
import array

import pytest

from support import gp
from support.refusal import refused_before_output

GPT = "{name: gpt, args: {size: custom, layers: 1, heads: 1, width: 8, context: 16, vocab_size: 65}}"
UNET = "{name: unet2d, args: {in_channels: 1, num_classes: 3, width: 4, levels: 1}}"
MLP = "{name: mlp, args: {in_features: 4, hidden: [4], num_classes: 2}}"


def write_numbers(path, code, values):
    path.write_bytes(array.array(code, values).tobytes())
    return path


def write_spec(folder, task, model, train, more=""):
    return gp.write_spec(folder / "spec.yaml", f"""\
name: tiny
output: {folder}/out
launch: {{hosts: [local], nproc_per_node: 2, omp_threads: 1}}
model: {model}
task: {task}
data:
  train: {train}
train: {{max_steps: 2, global_batch: 4}}
optimizer: {{name: adamw, lr: 1e-3}}
checkpoint: {{every: never}}
{more}
""")


def raw(folder, inputs, targets):
    """A raw data set: each a tuple (array code, values, shape, dtype)."""
    parts = []
    for name, (code, values, shape, dtype) in {"inputs": inputs, "targets": targets}.items():
        path = write_numbers(folder / f"{name}.bin", code, values)
        parts.append(f"{name}: {{path: {path}, shape: {shape}, dtype: {dtype}}}")
    return "{format: raw, " + ", ".join(parts) + "}"


# ---- tokens ------------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("content, dtype, context, code, words", [
    (b"\0\0" * 16, "uint16", 16, 65, ["train.bin", "16 tokens", "context 16 takes 17"]),
    (b"\0" * 101, "uint16", 16, 65, ["train.bin", "101 bytes", "whole number of tokens"]),
    (b"\0\0" * 40 + b"\x42\0" * 40, "uint16", 16, 65, ["train.bin", "token 66 at position 40", "[0, 65)", "vocab_size"]),
    (b"To be, or not to be" * 10, "uint8", 16, 65, ["token 84 at position 0"]),
    (b"\x93NUMPY\1\0" + b" " * 300, "uint8", 16, 65, ["NumPy", "tofile"]),
    (b"", "uint8", 16, 65, ["train.bin", "empty"]),
    (b"\0\0" * 100, "uint16", 17, 64, ["data.train.context", "at most 16 tokens", "has 17"]),
    (b"\0\0" * 100, "int16", 16, 64, ["data.train.dtype", "uint16"]),
])
def test_tokens_that_cannot_be_used(tmp_path, content, dtype, context, code, words):
    path = tmp_path / "train.bin"
    path.write_bytes(content)
    train = f"{{format: tokens, path: {path}, dtype: {dtype}, context: {context}}}"
    refused_before_output(tmp_path, write_spec(tmp_path, "language_model", GPT, train), code, *words)


def test_a_missing_token_file(tmp_path):
    train = f"{{format: tokens, path: {tmp_path}/none.bin, dtype: uint16, context: 8}}"
    refused_before_output(tmp_path, write_spec(tmp_path, "language_model", GPT, train), 65, "none.bin", "data.train")


# ---- masks -------------------------------------------------------------------------------------------------------------

def masks(folder, values, shape="[4, 4]", dtype="uint8", code="B"):
    images = ("f", [0.5] * (8 * 16), "[1, 4, 4]", "float32")
    return raw(folder, images, (code, values, shape, dtype))


def test_a_mask_value_that_is_no_class(tmp_path):
    values = [0, 1, 2, 1] * 32
    values[5 * 16 + 6] = 255
    train = masks(tmp_path, values)
    refused_before_output(tmp_path, write_spec(tmp_path, "segmentation", UNET, train), 65, "targets.bin", "class 255",
                          "sample 5 [1, 2]", "[0, 3)")
    refused_before_output(tmp_path, write_spec(tmp_path, "segmentation", UNET, train, "loss: {ignore_index: 254}"), 65,
                          "class 255", "ignore_index 254")


@pytest.mark.parametrize("arguments, words", [
    ({"shape": "[2, 8]"}, ["data.train.targets.shape", "[4, 4]", "[2, 8]"]),
    ({"dtype": "float32", "code": "f"}, ["data.train.targets.dtype", "integers", "float32"]),
])
def test_masks_that_do_not_fit_their_images(tmp_path, arguments, words):
    train = masks(tmp_path, [0] * (8 * 16), **arguments)
    refused_before_output(tmp_path, write_spec(tmp_path, "segmentation", UNET, train), 64, *words)


# ---- values ------------------------------------------------------------------------------------------------------------

def test_targets_of_another_size_than_the_models_outputs(tmp_path):
    train = raw(tmp_path, ("f", [0] * 32, "[4]", "float32"), ("f", [0] * 24, "[3]", "float32"))
    refused_before_output(tmp_path, write_spec(tmp_path, "regression", MLP, train), 64, "data.train.targets.shape",
                          "2 outputs", "3 values")


def test_class_labels_of_idx_are_no_values(tmp_path):
    images, labels = gp.write_idx(tmp_path / "data", 16, 2)
    train = f"{{format: idx, images: {images}, labels: {labels}}}"
    spec = write_spec(tmp_path, "regression", MLP, train)
    refused_before_output(tmp_path, spec, 64, "data.train.format", "idx is for classification",
                          args=["--set", "data.transforms.train=[to_tensor]"])


# ---- what must train ---------------------------------------------------------------------------------------------------

def images_and_masks(folder, samples=8, size=16):
    pixels = [(i * 37) % 256 for i in range(samples * size * size)]
    return raw(folder, ("B", pixels, [1, size, size], "uint8"), ("B", [p % 3 for p in pixels], [size, size], "uint8"))


@pytest.mark.parametrize("transforms", ["{train: [{random_crop: {size: 8}}, to_tensor]}", "{train: [random_horizontal_flip, to_tensor]}"])
def test_a_mask_is_cropped_with_its_image(tmp_path, transforms):
    data = images_and_masks(tmp_path)
    spec = write_spec(tmp_path, "segmentation", UNET, data + f"\n  transforms: {transforms}")
    job = gp.launch(spec)
    assert job.code == 0, job.err
    assert [record["step"] for record in gp.events(tmp_path / "out", "step")] == [1, 2]


def test_a_trace_of_too_many_steps_is_refused(tmp_path):
    data = raw(tmp_path, ("f", [0.5] * 64, [4], "float32"), ("q", [0, 1] * 8, [], "int64"))
    spec = write_spec(tmp_path, "classification", MLP, data, "log: {profile: [1, 1000]}").read_text().replace("max_steps: 2", "max_steps: 2000")
    refused_before_output(tmp_path, gp.write_spec(tmp_path / "spec.yaml", spec), 64, "log.profile", "at most 200 steps")


def test_a_trace_that_no_step_reaches_is_told(tmp_path):
    data = raw(tmp_path, ("f", [0.5] * 64, [4], "float32"), ("q", [0, 1] * 8, [], "int64"))
    spec = write_spec(tmp_path, "classification", MLP, data, "log: {profile: [50, 60]}").read_text().replace("max_steps: 2", "epochs: 1")
    job = gp.launch(gp.write_spec(tmp_path / "spec.yaml", spec))
    assert job.code == 0 and "log.profile: this launch runs steps 1 to 4, none of which is to be traced" in job.err, job.err

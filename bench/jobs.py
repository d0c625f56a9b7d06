"""The jobs that both sides of a bench train: model, batch, data."""
import dataclasses
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))
from support import order  # noqa: E402

SAMPLES, SEED, LR, THREADS = 2048, 1, 1e-3, 1
EPOCHS = 40  # whose ids are made


@dataclasses.dataclass(frozen=True)
class Job:
    """Model by its catalog name (gputrain) and its twin's (tests/parity); samples of `shape`, or windows of `context` tokens."""
    model: str
    args: dict
    global_batch: int
    check_steps: int  # over which both sides' losses are compared
    shape: tuple = ()
    classes: int = 10
    context: int = 0

    @property
    def task(self):
        return "language_model" if self.context else "classification"

    def data_spec(self, inputs, targets):
        if self.context:
            return f"{{format: tokens, path: {inputs}, dtype: uint8, context: {self.context}}}"
        return (f"{{format: raw, inputs: {{path: {inputs}, shape: {list(self.shape)}, dtype: float32}}, "
                f"targets: {{path: {targets}, shape: [], dtype: int64}}}}")


def gpt(layers, heads, width, context, **rest):
    args = {"size": "custom", "layers": layers, "heads": heads, "width": width, "context": context, "vocab_size": 65, "dropout": 0.0}
    return Job("gpt", args, context=context, classes=65, **rest)


JOBS = {
    "mlp": Job("mlp", {"in_features": 784, "hidden": [256, 256], "num_classes": 10}, global_batch=64, check_steps=20, shape=(784,)),
    "resnet18": Job("resnet18", {"in_channels": 3, "num_classes": 10}, global_batch=32, check_steps=20, shape=(3, 32, 32)),
    "gpt": gpt(6, 6, 384, 128, global_batch=4, check_steps=8),  # 10.7 million parameters
}
# The same kinds of work, small: to see that a bench works.
TINY = {
    "mlp": Job("mlp", {"in_features": 16, "hidden": [8, 8], "num_classes": 10}, global_batch=64, check_steps=20, shape=(16,)),
    "resnet18": dataclasses.replace(JOBS["resnet18"], global_batch=4, check_steps=3),
    "gpt": gpt(2, 2, 32, 16, global_batch=8, check_steps=8),
}


def make_data(folder, jobs, python):
    """NAME.inputs and NAME.targets of each job, ids.npy of each epoch, for both sides. Returns the ids."""
    for name, job in jobs.items():
        if job.context:
            made = f"r.integers(0, {job.classes}, {SAMPLES * job.context + 1}).astype(numpy.uint8).tofile(r'{folder}/{name}.inputs')"
        else:
            made = (f"r.standard_normal(({SAMPLES}, *{job.shape}), dtype=numpy.float32).tofile(r'{folder}/{name}.inputs')\n"
                    f"r.integers(0, {job.classes}, {SAMPLES}).astype(numpy.int64).tofile(r'{folder}/{name}.targets')")
        subprocess.run([python, "-c", f"import numpy\nr = numpy.random.default_rng(0)\n{made}"], check=True)
    epochs = [order.permutation(SAMPLES, SEED, epoch) for epoch in range(EPOCHS)]
    (folder / "ids.json").write_text(json.dumps(epochs))
    subprocess.run([python, "-c", f"import json, numpy; numpy.save(r'{folder}/ids.npy', numpy.array(json.load(open(r'{folder}/ids.json')), dtype=numpy.int64))"], check=True)
    return epochs

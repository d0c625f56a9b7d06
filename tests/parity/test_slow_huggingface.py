"""The twin of our GPT against Hugging Face's GPT2LMHeadModel: names, initial weights to the bit, logits; and a file that it saved, trained from here.

PEERS_TRANSFORMERS is a folder with the package (scripts/test.sh installs it).
"""
import json
import os
import sys

import pytest
import torch

from parity.reference_models import make_model
from support import gp

FOLDER = os.environ.get("PEERS_TRANSFORMERS", "")
ARGS = {"size": "custom", "layers": 3, "heads": 4, "width": 32, "context": 24, "vocab_size": 61, "dropout": 0.0}


@pytest.fixture(scope="module")
def hugging_face():
    assert FOLDER, "PEERS_TRANSFORMERS is not set: start this test with scripts/test.sh -L slow"
    sys.path.append(FOLDER)  # behind the peers' own packages
    import transformers

    return transformers


def make_theirs(transformers, args):
    config = transformers.GPT2Config(n_layer=args["layers"], n_head=args["heads"], n_embd=args["width"], n_positions=args["context"],
                                     vocab_size=args["vocab_size"], resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
    torch.manual_seed(5)
    return transformers.GPT2LMHeadModel(config)


def test_the_twin_is_gpt2(hugging_face):
    theirs, twin = make_theirs(hugging_face, ARGS), make_model("gpt", 5, ARGS)
    expected, ours = dict(theirs.named_parameters()), dict(twin.named_parameters())
    assert list(ours) == list(expected)
    for name, value in expected.items():
        assert torch.equal(ours[name], value), name
    tokens = torch.randint(61, (3, 24), generator=torch.Generator().manual_seed(2))
    a, b = twin.double().eval()(tokens), theirs.double().eval()(tokens).logits
    assert (a - b).abs().max() <= 1e-12 * b.abs().max()


def test_a_file_that_hugging_face_saved_starts_a_run(tmp_path, hugging_face):
    theirs = make_theirs(hugging_face, ARGS)
    theirs.save_pretrained(tmp_path / "saved")
    tokens = torch.randint(61, (4 * 24 + 1,), generator=torch.Generator().manual_seed(3))
    (tmp_path / "tokens.bin").write_bytes(tokens.to(torch.uint16).numpy().tobytes())
    spec = gp.write_spec(tmp_path / "spec.yaml", json.dumps({
        "name": "gpt2", "output": f"{tmp_path}/out", "seed": 1, "task": "language_model", "launch": {"nproc_per_node": 2, "omp_threads": 1},
        "model": {"name": "gpt", "args": ARGS, "init": f"{tmp_path}/saved/model.safetensors"},
        "data": {"train": {"format": "tokens", "path": f"{tmp_path}/tokens.bin", "dtype": "uint16", "context": 24}},
        "train": {"max_steps": 1, "global_batch": 4}, "optimizer": {"lr": 1e-3}, "checkpoint": {"every": "never"}}))
    job = gp.launch(spec, timeout=100)
    assert job.code == 0, job.err
    with torch.no_grad():
        logits = theirs.eval()(tokens[:-1].view(4, 24)).logits
        expected = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[1:]).item()
    (record,) = gp.events(tmp_path / "out", "step")
    assert record["loss"] == pytest.approx(expected, rel=1e-6)
    # And back: what was trained here opens there.
    trained = hugging_face.GPT2LMHeadModel(theirs.config)
    from safetensors.torch import load_file
    missing, unexpected = trained.load_state_dict(load_file(tmp_path / "out/checkpoints/step-00000001/model.safetensors"), strict=False)
    assert not unexpected and set(missing) <= {"lm_head.weight"}

"""The first thing a newcomer does: five epochs of Fashion-MNIST on two CPU ranks reach 0.90."""
import json

from support import gp


def test_fashion_mnist_reaches_ninety_percent(tmp_path):
    job = gp.launch(gp.ROOT / "configs/fashion_mnist.yaml", "--set", f"output={tmp_path}/out", "--nproc-per-node", "2", timeout=900)
    assert job.code == 0, job.err
    result = gp.result(tmp_path / "out")
    accuracy = gp.events(tmp_path / "out", "eval")[-1]["accuracy"]
    print("accuracy", accuracy, "seconds", job.seconds)
    assert accuracy >= 0.90
    assert result["outcome"] == "done"
    assert "accuracy" in job.err  # shown to people at the end
    evaluation = gp.run("eval", gp.ROOT / "configs/fashion_mnist.yaml", "--set", f"output={tmp_path}/out", "--checkpoint", "latest", timeout=120)
    assert evaluation.code == 0, evaluation.err
    assert json.loads(evaluation.out)["accuracy"] == accuracy

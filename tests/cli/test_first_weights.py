"""model.init and model.freeze through `launch`: a run starts from another's weights, and says what it took."""
import shutil

from support import gp


def trained(folder, **options):
    """A finished run's weights file."""
    folder.mkdir()
    path = gp.mlp_spec(folder, train="max_steps: 2, global_batch: 16", checkpoint="{every: 1 step}", **options)
    assert gp.launch(path).code == 0
    return folder / "out/checkpoints/step-00000002/model.safetensors"


def fine_tuning(folder, model, **options):
    path = gp.mlp_spec(folder, train="max_steps: 2, global_batch: 16", checkpoint="{every: 1 step}", **options)
    return gp.write_spec(path, path.read_text().replace("model: {", f"model: {{{model}, "))


def names(file):
    return list(gp.read_safetensors(file.read_bytes()))


def test_a_run_starts_from_a_file_and_goes_on_without_it(tmp_path):
    weights = tmp_path / "weights.safetensors"
    shutil.copy(trained(tmp_path / "first"), weights)
    body, head = [sorted({name.rsplit(".", 1)[0] for name in names(weights)})[i] for i in (0, -1)]
    path = fine_tuning(tmp_path, f'init: {weights}, init_ignore: ["{head}.*"], freeze: ["{body}.*"]')
    job = gp.launch(path, "--set", "train.max_steps=1")
    assert job.code == 0, job.err
    notices = "\n".join(record["text"] for record in gp.events(tmp_path / "out", "notice"))
    assert "model.init: 2 tensors loaded from" in notices and f"2 tensors left alone: {head}.weight, {head}.bias" in notices, notices

    logs = {path.name: path.read_text() for path in (tmp_path / "out/logs").glob("attempt-*/rank-*.log")}
    assert f": {body}.weight, {body}.bias\n" in logs["rank-00000.log"] and "model.init: loaded from" not in logs.get("rank-00001.log", "")

    weights_now, weights_then = gp.read_safetensors(gp.checkpoint_files(tmp_path / "out")["model.safetensors"]), gp.read_safetensors(weights.read_bytes())
    assert weights_now[f"{body}.weight"] == weights_then[f"{body}.weight"], "loaded, frozen, and in the checkpoint"
    assert weights_now[f"{head}.weight"] != weights_then[f"{head}.weight"]

    weights.unlink()
    job = gp.launch(path)
    assert job.code == 0, job.err
    assert gp.checkpoints(tmp_path / "out") == [1, 2]
    last = gp.read_safetensors(gp.checkpoint_files(tmp_path / "out", 2)["model.safetensors"])
    assert last[f"{body}.weight"] == weights_then[f"{body}.weight"]


def test_weights_that_do_not_fit_are_one_error_with_every_tensor(tmp_path):
    weights = trained(tmp_path / "first", hidden="[12]")
    job = gp.launch(fine_tuning(tmp_path, f"init: {weights}"))
    assert job.code == 65, job.err
    assert job.err.count("gputrain: error:") == 1 and "nothing was loaded: 3 of another shape or type" in job.err, job.err
    assert sum(f"{name} is Float[" in job.err for name in names(weights)) == 3, job.err
    assert gp.tree(tmp_path / "out") is None
    job.wait_for_nothing_left()


def test_a_missing_file_is_an_error_at_the_start(tmp_path):
    job = gp.launch(fine_tuning(tmp_path, f"init: {tmp_path}/none.safetensors"))
    assert job.code == 65, job.err
    assert job.err.count("gputrain: error:") == 1 and "none.safetensors" in job.err, job.err
    assert gp.tree(tmp_path / "out") is None


def test_patterns_that_match_nothing_or_everything(tmp_path):
    weights = trained(tmp_path / "first")
    for model, words in ((f'init: {weights}, init_ignore: ["classifier.*"]', '"classifier.*" matches no tensor'),
                         ('freeze: ["classifier.*"]', '"classifier.*" matches no parameter'),
                         ('freeze: ["*"]', "nothing is left to train")):
        job = gp.launch(fine_tuning(tmp_path, model))
        assert job.code == 64, job.err
        assert job.err.count("gputrain: error:") == 1 and words in job.err, job.err
        assert gp.tree(tmp_path / "out") is None

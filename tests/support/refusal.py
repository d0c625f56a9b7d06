"""What every refusal of bad input has in common."""
from support import gp


def expect_refusal(job, code, *words):
    """One error (not one a rank), the right code, the words in it, no process left."""
    assert job.code == code, f"exit {job.code}, expected {code}\n{job.err}"
    assert job.err.count("gputrain: error:") == 1, job.err
    for word in words:
        assert word in job.err, f"{word!r} not in:\n{job.err}"
    job.wait_for_nothing_left()


def refused_before_output(folder, spec, code, *words, args=(), env=None):
    """Launches `spec`, expects the refusal, and that `out` is as it was (absent)."""
    before = gp.tree(folder / "out")
    job = gp.launch(spec, *args, env=env)
    expect_refusal(job, code, *words)
    assert gp.tree(folder / "out") == before
    return job

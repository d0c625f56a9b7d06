"""What a run did step by step, for comparing a disturbed run with an undisturbed one."""
import collections
import pathlib
import struct

from support import gp

PHASES = ["set-up", "data-wait", "forward", "backward", "all-reduce", "optimizer", "evaluation", "writing", "commit", "idle"]  # enum Phase of src/wire/progress_page.h
TIMING = {"ts", "mono_s", "attempt", "samples_per_s", "data_wait_s", "step_s", "forward_s", "backward_s", "exposed_communication_s", "optimizer_s", "other_s",
          "checkpoint_s", "mfu"}


def curve(output):
    """{step: what its newest record says}, wall-clock figures left out."""
    return {record["step"]: {key: value for key, value in record.items() if key not in TIMING} for record in gp.events(output, "step")}


def evaluations(output):
    return {record["step"]: (record["loss"], record["accuracy"]) for record in gp.events(output, "eval")}


def phase_of(pid):
    """(step, phase) on a rank's progress page: struct ProgressPage of src/wire/progress_page.h."""
    step, phase, _ = struct.unpack("<QI4xQ", pathlib.Path(f"/proc/{pid}/fd/4").read_bytes()[:24])
    return step, PHASES[phase]


def check_steps(output, last, interval, blows):
    """Executed steps cover 1..last; each blow had no more than an interval done again."""
    executed = collections.Counter(record["step"] for record in gp.events(output, "step"))
    assert sorted(executed) == list(range(1, last + 1))
    assert max(executed.values()) <= 1 + blows
    assert sum(count - 1 for count in executed.values()) <= blows * interval

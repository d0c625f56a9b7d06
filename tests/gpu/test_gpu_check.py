"""scripts/gpu_check.sh, dry: bundled here, run on the CPU with the peers' torch. On a machine with a GPU the same script runs without --cpu."""
import json
import os
import pathlib
import subprocess
import sys

from support import gp


def test_bundle_and_run_on_the_cpu(tmp_path):
    bundle = tmp_path / "bundle.tar.xz"
    environment = {**os.environ, "GPUTRAIN_BUILD_DIR": str(gp.BUILD)}
    done = subprocess.run([gp.ROOT / "scripts/gpu_check.sh", "bundle", bundle], env=environment, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    assert bundle.stat().st_size <= 60 << 20
    subprocess.run(["tar", "-C", tmp_path, "-xf", bundle], check=True)
    environment = {**os.environ, "PATH": f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run([tmp_path / "gputrain/gpu_check.sh", "run", "--cpu"], env=environment, capture_output=True, text=True, timeout=500)
    checks = [json.loads(line) for line in done.stdout.splitlines()]
    print(done.stdout)
    assert done.returncode == 0 and all(check["ok"] for check in checks), done.stdout + done.stderr
    names = [check["check"] for check in checks]
    assert len(names) == len(set(names)) == 6 + 10 + 6  # training; ResNet with two layouts; GPT
    for side in ("gputrain", "Python eager", "torch.compile"):
        for amp in ("AMP bf16", "AMP off"):
            assert sum(side in name and amp in name for name in names) == (2 if side == "torch.compile" else 3), names
    # On a CPU the twins' losses are the same bits.
    losses = {check["check"]: check.get("losses") for check in checks}
    eager = [name for name in names if "Python eager" in name]
    assert all(losses[name] and losses[name] == losses[name.replace("Python eager", "gputrain")] for name in eager), losses

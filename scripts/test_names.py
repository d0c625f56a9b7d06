"""Whether a test exists, as tests/TRAPS.md and tests/mutants.toml name it: "tests/unit/train/step_test.cpp: Step.Name" or "tests/dist/test_x.py: test_name"."""
import re


def exists(root, test):
    path, _, name = test.partition(": ")
    if not (root / path).is_file():
        return False
    if path.endswith(".py"):
        declared = rf"^def {re.escape(name)}\("
    else:
        suite, _, case = name.partition(".")
        declared = rf"^TEST(_F|_P)?\({re.escape(suite)}, {re.escape(case)}\)"
    return re.search(declared, (root / path).read_text(), re.M) is not None

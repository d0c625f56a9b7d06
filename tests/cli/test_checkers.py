"""The checkers find what they are for: each is run on a tree with a planted violation."""
import json
import pathlib
import shutil
import subprocess
import sys

import pytest

from support import gp


def run(script, *args):
    return subprocess.run([sys.executable, "-B", gp.ROOT / "scripts" / script, *map(str, args)], capture_output=True, text=True)


@pytest.fixture
def tree(tmp_path):
    """A copy of what layers.py and tour.py read."""
    shutil.copytree(gp.ROOT / "src", tmp_path / "src")
    shutil.copytree(gp.ROOT / "cmake", tmp_path / "cmake")
    shutil.copytree(gp.ROOT / "include", tmp_path / "include")
    for name in ("README.md", "CONTRIBUTING.md"):
        shutil.copy(gp.ROOT / name, tmp_path)
    return tmp_path


def test_the_tree_as_it_is_passes(tree):
    for script in ("layers.py", "tour.py"):
        done = run(script, tree)
        assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("file, line, word", [
    ("util/error.cpp", '#include "sys/fs.h"', "util may not include sys/"),
    ("launch/supervisor.cpp", '#include "train/loop.h"', "launch may not include train/"),
    ("data/order.cpp", '#include "dist/comm.h"', "data may not include dist/"),
    ("spec/resolve.cpp", "#include <ATen/ATen.h>", "core half"),
    ("cli/app.cpp", "#include <yaml-cpp/yaml.h>", "belongs to module spec"),
    ("launch/lock.cpp", "#include <spdlog/spdlog.h>", "belongs to module util"),
    ("model/mlp.cpp", "#include <torch/torch.h>", "20 s a file"),
    ("train/loop.cpp", 'static auto x = std::getenv("HOME");', "may not print or read the environment"),
    ("train/loop.cpp", 'static void f() { std::cout << "x"; }', "may not print or read the environment"),
])
def test_layers_finds_a_planted_include(tree, file, line, word):
    path = tree / "src" / file
    path.write_text(line + "\n" + path.read_text())
    done = run("layers.py", tree)
    assert done.returncode == 1 and word in done.stdout and f"src/{file}:1:" in done.stdout, done.stdout


def test_tour_finds_a_missing_folder_and_a_gone_file(tree):
    (tree / "src/zebra").mkdir()
    tour = tree / "src/README.md"
    tour.write_text(tour.read_text() + "\nSee `train/gone.h`.\n")
    done = run("tour.py", tree)
    assert done.returncode == 1
    assert "zebra/ has no section" in done.stdout and "train/gone.h" in done.stdout


def test_test_list_finds_a_test_that_nothing_builds(tmp_path):
    build = tmp_path / "build"
    (tmp_path / "tests/unit").mkdir(parents=True)
    build.mkdir()
    for name in ("a_test.cpp", "b_test.cpp", "test_c.py", "test_d.py"):
        (tmp_path / "tests/unit" / name).write_text("")
    (build / "compile_commands.json").write_text(json.dumps([{"file": str(tmp_path / "tests/unit/a_test.cpp")}]))
    (build / "CTestTestfile.cmake").write_text(f"add_test(c {tmp_path}/tests/unit/test_c.py)")
    done = run("test_list.py", build, tmp_path)
    assert done.returncode == 1
    assert [line.split(":")[0] for line in done.stdout.splitlines()] == ["tests/unit/b_test.cpp", "tests/unit/test_d.py"]


@pytest.fixture
def plans(tmp_path):
    """A copy of what traps.py and mutants.py read."""
    shutil.copytree(gp.ROOT / "src", tmp_path / "src")
    shutil.copytree(gp.ROOT / "tests", tmp_path / "tests", ignore=shutil.ignore_patterns("golden", "__pycache__"))
    return tmp_path


def replace_once(path, old, new):
    text = path.read_text()
    assert text.count(old) >= 1, old
    path.write_text(text.replace(old, new, 1))


def test_the_plans_as_they_are_pass(plans):
    for script, *more in (("traps.py",), ("mutants.py", "--check")):
        done = run(script, plans, *more)
        assert done.returncode == 0 and done.stdout == "", done.stdout


@pytest.mark.parametrize("file, old, new, words", [
    ("tests/TRAPS.md", "| 7 |", "| 70 |", "the rows are not 1 to 48"),
    ("tests/TRAPS.md", "needs a GPU to show", "is hard to show", "trap 30: names no test and says neither"),
    ("tests/unit/train/evaluate_test.cpp", "EverySampleOnceOnAnyNumberOfRanks", "EverySample", "trap 23: there is no test tests/unit/train/evaluate_test.cpp: Evaluate."),
    ("tests/dist/test_gradients.py", "def test_dropout_differs_by_rank", "def test_dropout", "trap 26: there is no test tests/dist/test_gradients.py: test_dropout_differs"),
    ("tests/unit/train/step_test.cpp", "TEST(Step, ClipsTheAveragedGradient)", "TEST(Step, Trap35Clips)", "trap 35: its row lacks tests/unit/train/step_test.cpp: Step.Trap35Clips"),
])
def test_traps_finds_a_plan_that_is_not_true(plans, file, old, new, words):
    replace_once(plans / file, old, new)
    done = run("traps.py", plans)
    assert done.returncode == 1 and words in done.stdout, done.stdout


@pytest.mark.parametrize("file, old, new, words", [
    ("src/train/ema.cpp", "1 - decay_", "1.0 - decay_", "EMA decay swapped: src/train/ema.cpp has its text 0 times"),
    ("src/train/evaluate.cpp", "parts_.model.eval();", "parts_.model.eval(); parts_.model.eval();", "evaluation in training mode: src/train/evaluate.cpp has its text 2 times"),
    ("tests/mutants.toml", 'file = "src/train/ema.cpp"', 'file = "src/train/emma.cpp"', "EMA decay swapped: src/train/emma.cpp is not there"),
    ("tests/mutants.toml", "to = '/*is_causal=*/false'", "to = '/*is_causal=*/true'", "the causal mask is off: changes nothing"),
    ("tests/mutants.toml", 'name = "NaN improves"', 'name = "unscale skipped"', "unscale skipped: the name is there twice"),
    ("tests/unit/train/ema_test.cpp", "EqualsTheClosedForm", "EqualsTheForm", "EMA decay swapped: there is no test tests/unit/train/ema_test.cpp: Ema.EqualsTheClosedForm"),
])
def test_mutants_finds_one_that_cannot_be_planted(plans, file, old, new, words):
    replace_once(plans / file, old, new)
    done = run("mutants.py", plans, "--check")
    assert done.returncode == 1 and words in done.stdout, done.stdout


def test_mutants_selects_by_name_and_file(plans):
    by_file = run("mutants.py", plans, "--list", "--touched", "src/train/ema.cpp\nREADME.md").stdout
    assert by_file == run("mutants.py", plans, "--list", "--only", "EMA decay swapped").stdout
    assert [line for line in by_file.splitlines() if not line.startswith(" ")] == ["EMA decay swapped"]
    assert run("mutants.py", plans, "--programs", "--touched", "README.md").stdout.strip() == ""
    assert run("mutants.py", plans, "--list", "--only", "nonsense").returncode == 1


@pytest.mark.parametrize("call, links", [("", True), ("void high(); void low() { high(); }", False)])
def test_the_link_check_finds_an_upward_call(tmp_path, call, links):
    """A static library that calls upward archives without complaint; linkcheck refuses it."""
    (tmp_path / "low.cpp").write_text(call or "void low() {}")
    (tmp_path / "CMakeLists.txt").write_text(f"""
cmake_minimum_required(VERSION 3.25)
project(planted LANGUAGES CXX)
add_compile_options(-fPIC)
file(MAKE_DIRECTORY ${{PROJECT_BINARY_DIR}}/gen)
add_library(gp_low STATIC low.cpp)
set_property(GLOBAL PROPERTY GPUTRAIN_MODULES low)
include({gp.ROOT}/cmake/LinkCheck.cmake)
""")
    subprocess.run(["cmake", "-S", tmp_path, "-B", tmp_path / "b", "-G", "Ninja"], check=True, capture_output=True)
    subprocess.run(["ninja", "-C", tmp_path / "b", "gp_low"], check=True, capture_output=True)
    assert (subprocess.run(["ninja", "-C", tmp_path / "b", "linkcheck"], capture_output=True).returncode == 0) is links


def test_the_readme_has_the_exit_code_table():
    """README's table is src/util/exit_code.cpp's, row by row."""
    source = (gp.ROOT / "src/util/exit_code.cpp").read_text()
    readme = (gp.ROOT / "README.md").read_text()
    import re
    rows = re.findall(r'\{(\d+),\s*"([\w-]+)",\s*((?:"(?:[^"\\]|\\.)*"\s*)+),\s*(true|false)\}', source)
    assert len(rows) >= 17
    for code, word, meaning, resumable in rows:
        text = "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', meaning)).replace('\\"', '"')
        assert f"| {code} | {word} | {text} | {'yes' if resumable == 'true' else 'no'} |" in readme, code


def test_gputrain_links_no_libtorch_and_a_worker_no_torch_cuda():
    core = subprocess.run(["ldd", gp.GPUTRAIN], capture_output=True, text=True).stdout
    worker = subprocess.run(["ldd", gp.BUILD / "gputrain-worker"], capture_output=True, text=True).stdout
    assert "torch" not in core and "libc10" not in core
    assert "libtorch_cpu" in worker and "libtorch_cuda" not in worker and "libnccl" not in worker

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

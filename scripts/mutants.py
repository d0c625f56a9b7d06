#!/usr/bin/env python3
"""Known faults (tests/mutants.toml), each planted in a copy of one source file, compiled and linked apart; the test it names must fail.

Usage: mutants.py [ROOT] --check            every mutant still applies, and its test exists: needs no build
       mutants.py [ROOT] --list
       mutants.py [ROOT] --programs         what --build needs built first
       mutants.py [ROOT] --build BUILD      plants them against the objects and archives of BUILD; exit 1 when one survives
--only NAME and --touched FILES (one path a line) select some. No file of the tree is ever written.
"""
import argparse
import concurrent.futures
import dataclasses
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib

from test_names import exists

KEYS = ("name", "file", "from", "to", "test")
PROGRAM_LIMIT, TEST_LIMIT = 300, 120  # seconds of a test through the programs, and of one of a unit program


@dataclasses.dataclass(frozen=True)
class Mutant:
    name: str
    file: str   # the source file, from the root
    old: str    # is in it exactly once
    new: str
    test: str   # "file: name"

    @property
    def test_file(self):
        return self.test.partition(": ")[0]

    @property
    def test_name(self):
        return self.test.partition(": ")[2]

    @property
    def is_unit(self):
        return self.test_file.endswith(".cpp")

    @property
    def program(self):
        """What has to be linked anew."""
        return f"unit_{self.test_file.split('/')[2]}" if self.is_unit else "gputrain-worker"


def read_table(root):
    rows = tomllib.loads((root / "tests/mutants.toml").read_text())["mutant"]
    for row in rows:
        if set(row) != set(KEYS):
            sys.exit(f"tests/mutants.toml: {row.get('name', row)}: needs exactly {', '.join(KEYS)}")
    return [Mutant(*(row[key] for key in KEYS)) for row in rows]


def problems(root, mutants):
    seen = set()
    for mutant in mutants:
        if mutant.name in seen:
            yield f"{mutant.name}: the name is there twice"
        seen.add(mutant.name)
        path = root / mutant.file
        count = path.read_text().count(mutant.old) if path.is_file() else -1
        if count != 1:
            yield f"{mutant.name}: {mutant.file} " + ("is not there" if count < 0 else f"has its text {count} times, not once")
        if mutant.old == mutant.new:
            yield f"{mutant.name}: changes nothing"
        if not exists(root, mutant.test):
            yield f"{mutant.name}: there is no test {mutant.test}"


class Workshop:
    """A build directory of its own: copies of what the programs are linked from, so that nobody's build changes it meanwhile."""

    def __init__(self, root, build, folder):
        self.root, self.build, self.folder = root, build, folder
        self.commands = {entry["file"]: entry["command"] for entry in json.loads((build / "compile_commands.json").read_text())}
        self.links = {}

    def prepare(self, program):
        """Copies a program, its objects and its archives."""
        lines = subprocess.run(["ninja", "-C", self.build, "-t", "commands", program], capture_output=True, text=True, check=True).stdout
        words = shlex.split(lines.splitlines()[-1].removeprefix(": && ").removesuffix(" && :"))
        for word in [program, *words]:
            if not word.startswith("/") and (self.build / word).is_file():
                (self.folder / word).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(self.build / word, self.folder / word)
        self.links[program] = words

    def make(self, mutant, place):
        """Compiles the mutated copy and links its program into `place`. The new object stands before the archives, so that the member with the
        original is not taken; were it taken for another symbol, the linker would refuse both."""
        source = self.root / mutant.file
        copy, built = place / source.name, place / f"{source.name}.o"
        copy.write_text(source.read_text().replace(mutant.old, mutant.new))
        words = shlex.split(self.commands[str(source)])
        words = words[next(i for i, word in enumerate(words) if re.search(r"(c\+\+|g\+\+)(-\d+)?$", word)):]  # without a launcher
        original = words[words.index("-o") + 1]
        words[words.index("-o") + 1], words[words.index("-c") + 1] = str(built), str(copy)
        self.run([*words, f"-I{source.parent}"], self.build, f"{mutant.name}: does not compile")
        link = list(self.links[mutant.program])
        if original in link:
            link[link.index(original)] = str(built)
        else:
            link.insert(next(i for i, word in enumerate(link) if word.endswith(".o")), str(built))
        link[link.index("-o") + 1] = str(place / mutant.program)
        self.run(link, self.folder, f"{mutant.name}: does not link")

    @staticmethod
    def run(command, folder, problem):
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"{problem}\n{done.stderr or done.stdout}")

    def test(self, mutant, place):
        """Exit code and output of the mutant's test with the programs in `place`; None after the limit."""
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "GPUTRAIN_BUILD": str(place), "PYTHONPATH": str(self.root / "tests")}
        if mutant.is_unit:
            command, limit = [place / mutant.program, f"--gtest_filter={mutant.test_name}:*/{mutant.test_name}/*", "--gtest_fail_fast"], TEST_LIMIT
        else:
            if not (place / "gputrain").exists():
                shutil.copy2(self.build / "gputrain", place)
            command, limit = ["/usr/bin/python3", "-B", "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", f"{self.root / mutant.test_file}::{mutant.test_name}"], PROGRAM_LIMIT
        process = subprocess.Popen(command, cwd=place, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            output, _ = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # its ranks too
            process.communicate()
            return None, ""
        if mutant.is_unit and process.returncode == 0 and not re.search(r"\[  PASSED  \] [1-9]", output):
            raise RuntimeError(f"{mutant.name}: {mutant.program} has no test {mutant.test_name}")
        return process.returncode, output

    def check_sound(self, mutant):
        """The test must pass without the fault, or its failure says nothing."""
        code, output = self.test(mutant, self.folder)
        return "" if code == 0 else f"{mutant.test} fails without a mutant\n{output[-3000:]}"

    def plant(self, mutant):
        """(killed, a line about it)"""
        start = time.monotonic()
        try:
            with tempfile.TemporaryDirectory(dir=self.folder) as place:
                self.make(mutant, pathlib.Path(place))
                code, _ = self.test(mutant, pathlib.Path(place))
        except RuntimeError as error:
            return False, f"BROKEN    {error}"
        verdict = "SURVIVED " if code == 0 else "timed out" if code is None else "killed   "
        return code != 0, f"{verdict} {mutant.name} ({mutant.test}, {time.monotonic() - start:.0f} s)"


def plant_all(root, build, mutants):
    with tempfile.TemporaryDirectory(prefix="gputrain-mutants-") as folder, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        workshop = Workshop(root, build, pathlib.Path(folder))
        for program in sorted({mutant.program for mutant in mutants}):
            workshop.prepare(program)
        unsound = [text for text in pool.map(workshop.check_sound, {mutant.test: mutant for mutant in mutants}.values()) if text]
        if unsound:
            sys.exit("\n".join(unsound))
        killed = []
        for done in concurrent.futures.as_completed([pool.submit(workshop.plant, mutant) for mutant in mutants]):
            ok, line = done.result()
            killed.append(ok)
            print(line, flush=True)
    print(f"{len(killed)} mutants, {killed.count(False)} survived or broken")
    return 0 if all(killed) else 1


def selected(arguments, mutants):
    chosen = [mutant for mutant in mutants if arguments.only in (None, mutant.name)]
    if not chosen:
        sys.exit(f"there is no mutant \"{arguments.only}\"; --list shows them")
    if arguments.touched is None:
        return chosen
    touched = set(arguments.touched.splitlines())
    return [mutant for mutant in chosen if mutant.file in touched]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("root", nargs="?", type=pathlib.Path, default=pathlib.Path(__file__).parent.parent)
    action = parser.add_mutually_exclusive_group(required=True)
    for name in ("check", "list", "programs"):
        action.add_argument(f"--{name}", action="store_true")
    action.add_argument("--build", type=pathlib.Path)
    parser.add_argument("--only")
    parser.add_argument("--touched")
    arguments = parser.parse_args()
    root = arguments.root.resolve()
    mutants = read_table(root)
    found = list(problems(root, mutants))
    if found:
        print("\n".join(f"tests/mutants.toml: {problem}" for problem in found), file=sys.stdout if arguments.check else sys.stderr)
        return 1
    if arguments.check:
        return 0
    chosen = selected(arguments, mutants)
    if arguments.list:
        print("\n".join(f"{mutant.name}\n    {mutant.file}, {mutant.test}" for mutant in chosen))
    elif arguments.programs:
        unit = {mutant.program for mutant in chosen if mutant.is_unit}
        print("\n".join(sorted(unit | ({"gputrain", "gputrain-worker"} if any(not m.is_unit for m in chosen) else set()))))
    else:
        return plant_all(root, arguments.build.resolve(), chosen)
    return 0


if __name__ == "__main__":
    sys.exit(main())

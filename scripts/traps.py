#!/usr/bin/env python3
"""Checks tests/TRAPS.md: a row for each of the traps 1 to 48, every test it names exists, a row without one says why, and each test whose name has a
trap's number (Trap08...) is in its row.

Usage: traps.py [ROOT]. Exit 1 with a line for each fault.
"""
import pathlib
import re
import sys

from test_names import exists

COUNT = 48
REASONS = ("needs a GPU", "comes later")


def rows(root):
    """(number, what stands in the row after it)"""
    for line in (root / "tests/TRAPS.md").read_text().splitlines():
        if match := re.match(r"\| (\d+) \|(.*)", line):
            yield int(match[1]), match[2]


def tests_of(row):
    return re.findall(r"`(tests/[^`]+: [^`]+)`", row)


def numbered_tests(root):
    """(number, "file: name") of each test that is named after a trap."""
    for path in sorted((root / "tests").rglob("*_test.cpp")):
        for suite, case in re.findall(r"^TEST(?:_F|_P)?\((\w+), (\w+)\)", path.read_text(), re.M):
            if match := re.search(r"Trap(\d+)", f"{suite} {case}"):
                yield int(match[1]), f"{path.relative_to(root)}: {suite}.{case}"


def faults(root):
    table = list(rows(root))
    if [number for number, _ in table] != list(range(1, COUNT + 1)):
        yield f"the rows are not 1 to {COUNT}, each once and in order"
    for number, row in table:
        for test in tests_of(row):
            if not exists(root, test):
                yield f"trap {number}: there is no test {test}"
        if not tests_of(row) and not any(reason in row for reason in REASONS):
            yield f"trap {number}: names no test and says neither \"{REASONS[0]}\" nor \"{REASONS[1]}\""
    by_number = dict(table)
    for number, test in numbered_tests(root):
        if test not in tests_of(by_number.get(number, "")):
            yield f"trap {number}: its row lacks {test}"


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent).resolve()
    found = list(faults(root))
    print("".join(f"tests/TRAPS.md: {fault}\n" for fault in found), end="")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Checks that every test file is built or run: tests/**/*_test.cpp against compile_commands.json, tests/**/test_*.py against CTest's list.

Usage: test_list.py BUILD_DIR [ROOT]. Prints each file that nothing runs; exit 1 when there is one.
"""
import json
import pathlib
import sys


def unlisted(build, root):
    built = {pathlib.Path(entry["file"]).resolve() for entry in json.loads((build / "compile_commands.json").read_text())}
    for path in sorted((root / "tests").rglob("*_test.cpp")):
        if path.resolve() not in built:
            yield path
    registered = "".join(path.read_text() for path in build.rglob("CTestTestfile.cmake"))
    for path in sorted((root / "tests").rglob("test_*.py")):
        if str(path.resolve()) not in registered:
            yield path


def main():
    build = pathlib.Path(sys.argv[1])
    root = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else pathlib.Path(__file__).parent.parent).resolve()
    found = list(unlisted(build, root))
    for path in found:
        print(f"{path.relative_to(root)}: no test program or CTest entry uses this file")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

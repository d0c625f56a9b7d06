#!/usr/bin/env python3
"""Writes BUILD/tidy/compile_commands.json: the build's commands without GCC's precompiled headers, which clang cannot read.

clang looks for cmake_pch.hxx.gch beside cmake_pch.hxx and stops at GCC's format; a copy elsewhere is included as text.
Usage: tidy_commands.py BUILD_DIR
"""
import json
import pathlib
import re
import shutil
import sys


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    target = build / "tidy"
    target.mkdir(exist_ok=True)
    copies = set()
    entries = json.loads((build / "compile_commands.json").read_text())

    def copied(match):
        header = pathlib.Path(match.group(0))
        copy = target / f"{header.parent.name}.hxx"
        if copy not in copies:
            copies.add(copy)
            shutil.copy(header, copy)
        return str(copy)

    for entry in entries:
        command = re.sub(r"\S*/cmake_pch\.hxx\b(?!\.)", copied, entry["command"]).replace("-Winvalid-pch", "")
        entry["command"] = re.sub(r"^.*?(?=\S*(?:c\+\+|g\+\+) )", "", command)
    (target / "compile_commands.json").write_text(json.dumps(entries))


main()

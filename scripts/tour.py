#!/usr/bin/env python3
"""Checks that src/README.md, the tour, has a section for every folder of src/ and names no folder or file that is gone.

Usage: tour.py [ROOT]. Exit 1 with a line for each fault.
"""
import pathlib
import re
import sys


def faults(root):
    tour = (root / "src/README.md").read_text()
    for folder in sorted(path.name for path in (root / "src").iterdir() if path.is_dir()):
        if not re.search(rf"^### `{folder}/`", tour, re.M):
            yield f"src/README.md: folder {folder}/ has no section (### `{folder}/`)"
    for name in re.findall(r"^### `(\w+)/`", tour, re.M):
        if not (root / "src" / name).is_dir():
            yield f"src/README.md: section {name}/, but there is no such folder"
    for name in re.findall(r"`([\w/]+\.(?:h|cpp|md))`", tour):
        if not any((root / base / name).exists() for base in ("src", ".")):
            yield f"src/README.md: names {name}, which does not exist"


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent)
    found = list(faults(root))
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

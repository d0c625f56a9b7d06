#!/usr/bin/env python3
"""Checks that includes follow the layer picture: cmake/Modules.cmake is the picture, `#include "module/file.h"` the arrows.

Also: each third-party header lives in one module, and only cli and worker print or read the environment.
Usage: layers.py [ROOT]. Prints each violation as file:line: text; exit 1 when there is one.
"""
import pathlib
import re
import sys

# Third-party header prefix -> modules that may include it (design section 2).
THIRD_PARTY = {
    "CLI/": {"cli"},
    "yaml-cpp/": {"spec"},
    "spdlog/": {"util"},
    "nlohmann/": {"util"},
    "gloo/": {"dist"},
    "nccl": {"dist"},
    "torch/csrc/distributed/": {"dist"},
    "xxhash.h": {"ckpt"},
    "zlib.h": {"data"},
    "cuda": {"dist"},
    "curl/": {"sys"},
    "nvml": {"sys"},
}
CORE = {"util", "sys", "spec", "wire", "monitor", "launch", "cli"}
ROOTS_ONLY = re.compile(r"\b(std::cout|std::cerr|printf\s*\(|getenv\s*\()")
MAY_PRINT = {"cli", "worker"}


def allowed_modules(root):
    """module -> the modules it may include, itself included, from the gputrain_module() table."""
    table = {}
    for line in (root / "cmake/Modules.cmake").read_text().splitlines():
        found = re.match(r"gputrain_module\((\w+)\s+LAYER \d(?: TORCH)?(?:\s+DEPS ([\w ]+?))?(?: LIBS .*)?\)", line)
        if found:
            table[found.group(1)] = {found.group(1), *(found.group(2) or "").split()}
    table["cli"] = {"cli", "launch", "monitor", "wire", "spec", "sys", "util"}
    table["worker"] = {"worker", "train", "dist", "data", "model", "ckpt", "monitor", "wire", "spec", "sys", "util"}
    return table


def violations(root):
    table = allowed_modules(root)
    for path in sorted((root / "src").rglob("*")):
        if path.suffix not in (".h", ".cpp"):
            continue
        module = path.relative_to(root / "src").parts[0]
        if module not in table:
            yield path, 1, f"folder src/{module} is not in cmake/Modules.cmake"
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            yield from ((path, number, text) for text in line_violations(table, module, line))


def line_violations(table, module, line):
    own = re.match(r'\s*#include "([a-z_]+)/', line)
    if own and own.group(1) in table and own.group(1) not in table[module]:
        yield f"{module} may not include {own.group(1)}/ (allowed: {', '.join(sorted(table[module]))})"
    foreign = re.match(r"\s*#include <([^>]+)>", line)
    if foreign:
        for prefix, modules in THIRD_PARTY.items():
            if foreign.group(1).startswith(prefix) and module not in modules:
                yield f"<{foreign.group(1)}> belongs to module {', '.join(sorted(modules))} alone"
        if module in CORE and re.match(r"(torch|ATen|c10)/", foreign.group(1)):
            yield f"{module} is in the core half: it never includes LibTorch"
        if foreign.group(1) == "torch/torch.h":
            yield "torch/torch.h costs 20 s a file: include the parts that are used"
    code = line.split("//")[0]
    if module not in MAY_PRINT and ROOTS_ONLY.search(code) and "snprintf" not in code and "fprintf" not in code:
        yield f"{module} may not print or read the environment: only cli and worker do"


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent)
    found = list(violations(root))
    for path, line, text in found:
        print(f"{path.relative_to(root)}:{line}: {text}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

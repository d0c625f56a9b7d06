#!/usr/bin/env bash
# The gates that are not tests: format, layers, test list, tour, trap plan, mutants that still apply, tidy.
#   ./scripts/check.sh         tidy on what changed since the merge base with origin/main, or HEAD~1
#   ./scripts/check.sh --all   tidy on every file
. "$(dirname "$0")/lib.sh"
cd "$ROOT"

sources() { git ls-files --cached --others --exclude-standard -- 'src/*.h' 'src/*.cpp' 'include/*.h' 'tests/*.h' 'tests/*.cpp' 'bench/*.cpp'; }

say "format"
sources | xargs clang-format-14 --dry-run --Werror

say "layers, test list, tour, traps, mutants"
python3 scripts/layers.py
python3 scripts/test_list.py "$BUILD"
python3 scripts/tour.py
python3 -B scripts/traps.py
python3 -B scripts/mutants.py --check

say "layers, by the linker"
ninja -C "$BUILD" linkcheck >/dev/null || { ninja -C "$BUILD" linkcheck; exit 1; }

changed() { changed_files | grep -E '^src/.*\.cpp$' | grep -v '^src/dist/cuda/' || true; }
files=$([ "${1:-}" = --all ] && git ls-files 'src/*.cpp' | grep -v '^src/dist/cuda/' || changed)
if [ -n "$files" ]; then
  say "tidy: $(wc -w <<<"$files") files"
  # GCC's precompiled header is of no use to clang: its text is included instead.
  python3 scripts/tidy_commands.py "$BUILD"
  need_tidy
  xargs -P2 -n2 "$(tidy_program)" -p "$BUILD/tidy" --quiet --warnings-as-errors='*' <<<"$files" 2>&1 |
    { ! grep -E '(error|warning):' -A6; } || die "clang-tidy found problems"
fi
say "checks passed"

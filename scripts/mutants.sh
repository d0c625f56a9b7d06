#!/usr/bin/env bash
# Plants the known faults of tests/mutants.toml, one at a time, and checks that the test each names fails. A suite that passes with one
# of these is worth nothing. A few minutes; CTest label `mutants`. The tree is not touched: scripts/mutants.py says how.
#   ./scripts/mutants.sh                all of them
#   ./scripts/mutants.sh --changed      those in files changed since the merge base with origin/main, or HEAD~1
#   ./scripts/mutants.sh --only NAME    one
#   ./scripts/mutants.sh --list         their names, files and tests
. "$(dirname "$0")/lib.sh"
cd "$ROOT"

selection=()
while [ $# -gt 0 ]; do
  case "$1" in
    --list) exec python3 -B scripts/mutants.py --list ;;
    --only) selection+=(--only "${2:?"--only needs a name"}"); shift 2 ;;
    --changed) selection+=(--touched "$(changed_files)"); shift ;;
    *) die "usage: mutants.sh [--changed] [--only NAME] | --list" ;;
  esac
done

programs=$(python3 -B scripts/mutants.py --programs "${selection[@]}") || exit 1
[ -n "$programs" ] || { echo "0 mutants: none is in a changed file"; exit; }
# shellcheck disable=SC2086
build_targets $programs
exec python3 -B scripts/mutants.py --build "$BUILD" "${selection[@]}"

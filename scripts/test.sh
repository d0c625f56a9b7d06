#!/usr/bin/env bash
# Sets up, builds, checks and tests.
#   ./scripts/test.sh             check.sh, then every test but labels slow, image, mutants   (what CI runs)
#   ./scripts/test.sh -L LABEL    one label alone, without check.sh: unit dist cli parity gpu slow image mutants
#   ./scripts/test.sh --all       everything but image and mutants, tidy on every file
. "$(dirname "$0")/lib.sh"

label="" all=no
while [ $# -gt 0 ]; do
  case "$1" in
    -L) label=${2:?"-L needs a label"}; shift 2 ;;
    --all) all=yes; shift ;;
    *) die "usage: test.sh [-L LABEL | --all]" ;;
  esac
done

cd "$ROOT"
# shellcheck disable=SC2086
need_packages $BUILD_PACKAGES $DATA_PACKAGES $TEST_PACKAGES
need_libtorch "$([ -z "$label" ] || [ "$label" = gpu ] && echo cuda || echo cpu)"
case "$label" in
  "" | parity | gpu | slow) need_peers; CONFIGURE_OPTIONS+=("-DGPUTRAIN_PEERS_PYTHON=$(peers_directory)/bin/python") ;;
esac
case "$label$all" in
  slowno | yes) "$ROOT/scripts/shakespeare.sh" "$BUILD/shakespeare"; need_transformers; export PEERS_TRANSFORMERS; PEERS_TRANSFORMERS=$(transformers_directory) ;;
esac
CONFIGURE_OPTIONS+=(-DGPUTRAIN_TESTS=ON)
# A build folder configured by quickstart.sh lacks the tests: configure again (cheap; objects are kept).
if [ -e "$BUILD/build.ninja" ]; then
  cmake -S . -B "$BUILD" "${CONFIGURE_OPTIONS[@]}" >"$BUILD/configure.log" 2>&1 || { cat "$BUILD/configure.log" >&2; die "configure failed"; }
fi

run_ctest() { ctest --test-dir "$BUILD" --output-on-failure --no-tests=error "$@"; }

case "$label" in
  unit) build_targets unit_tests; run_ctest -L '^unit$' -j2; exit ;;
  image | mutants) build_targets programs; run_ctest -L "^$label\$" -V; exit ;;
  ?*) build_targets all; run_ctest -L "^$label\$"; exit ;;
esac

build_targets all
if [ $all = yes ]; then
  ./scripts/check.sh --all
  run_ctest -LE '^(image|mutants)$'
else
  ./scripts/check.sh
  run_ctest -LE '^(slow|image|mutants)$'
fi

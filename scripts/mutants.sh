#!/usr/bin/env bash
# Plants known faults, one at a time, in a copy of the tree, and checks that the named test fails. A suite that passes with one of
# these is worth nothing. About 5 minutes; CTest label `mutants`.
. "$(dirname "$0")/lib.sh"

work=$(mktemp -d "${TMPDIR:-/tmp}/gputrain-mutants-XXXXXX")
trap 'rm -rf "$work"' EXIT
git -C "$ROOT" ls-files -z --cached --others --exclude-standard | (cd "$ROOT" && xargs -0 cp --parents -t "$work" 2>/dev/null)
mkdir -p "$CCACHE_DIR"
cmake -S "$work" -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DGPUTRAIN_BENCH=OFF -DGPUTRAIN_CUDA=OFF >"$work/configure.log" || die "configure failed"

run_test() { GPUTRAIN_BUILD=$work/build OMP_NUM_THREADS=1 PYTHONPATH=$work/tests timeout 300 /usr/bin/python3 -B -m pytest -q -x -p no:cacheprovider "$@" >"$work/test.log" 2>&1; }
build() { ninja -C "$work/build" gputrain gputrain-worker >"$work/build.log" 2>&1 || { tail -n 30 "$work/build.log" >&2; die "the build failed"; }; }

survivors=0 planted=0
# mutant NAME FILE FROM TO TEST: replaces the fixed string FROM (which must be there once) and expects TEST to fail.
mutant() {
  local name=$1 file=$work/$2 from=$3 to=$4 test=$5
  cp "$file" "$work/original"
  FROM=$from TO=$to perl -0pi -e '$n = s/\Q$ENV{FROM}\E/$ENV{TO}/g; END { exit($n == 1 ? 0 : 1) }' "$file" || die "mutant '$name': its text is not in $2 exactly once"
  build
  planted=$((planted + 1))
  if run_test "$work/$test"; then
    echo "SURVIVED  $name ($test passes)"
    survivors=$((survivors + 1))
  else
    echo "killed    $name ($(grep -cE '^FAILED|^ERROR' "$work/test.log") failure(s) in $test)"
  fi
  cp "$work/original" "$file"
}

say "the tests pass without a fault"
build
run_test "$work/tests/dist/test_gradients.py" || { tail -n 30 "$work/test.log" >&2; die "tests/dist/test_gradients.py fails without a mutant"; }

same=tests/dist/test_gradients.py::test_same_gradients_as_one_process_with_the_full_batch
mutant "the reducer is skipped" src/train/step_runner.cpp 'parts_.reducer.begin_micro_batch(last);' 'parts_.reducer.begin_micro_batch(false);' $same
mutant "W left out of the loss scale" src/train/step_runner.cpp 'static_cast<double>(parts_.vote.world_size()) / static_cast<double>(samples)' \
  '1.0 / static_cast<double>(samples)' $same
mutant "a rank's seed is dropped" src/train/step_runner.cpp 'RandomDomain::kDropout, options_.seed, rank,' 'RandomDomain::kDropout, options_.seed, 0 * rank,' \
  tests/dist/test_gradients.py::test_dropout_differs_by_rank
mutant "the last window's divisor is the full one" src/train/step_runner.cpp '/ static_cast<double>(samples);' \
  '/ static_cast<double>([samples] { static int64_t full = 0; return full = std::max(full, samples); }());' \
  tests/dist/test_gradients.py::test_each_gradient_is_the_mean_over_the_windows_own_samples

echo "$planted mutants, $survivors survived"
[ $survivors -eq 0 ]

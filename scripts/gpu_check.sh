#!/usr/bin/env bash
# The checks that need a GPU, on a machine that has one but neither compiler nor network.
#   ./scripts/gpu_check.sh bundle [OUT.tar.xz]   here: builds with the CUDA library, packs executables and the few shared objects (<= 60 MiB)
#   gpu_check.sh run [--cpu] [PART ...]          there, in the unpacked bundle: needs Python with torch 2.11 and an NVIDIA GPU.
#                                                JSON lines on stdout, one after each check: what was cut off has its results so far.
#                                                --cpu: the same on the CPU with small models, to test this script (<= 60 s).
# Parts (all of them when none is named), each a command of its own where a machine is lent by the minute:
#   training   what a run does on a GPU: NCCL, pinned loader, precisions, evaluation, resume, exit codes
#   resnet50   speed with AMP on and off, channels_last on and off, against Python eager and torch.compile; <= 4 minutes; needs torchvision
#   gpt2       GPT-2 124M, the same; <= 4 minutes
set -euo pipefail
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

bundle() {
  . "$HERE/lib.sh"
  local out; out=$(realpath -m "${1:-$BUILD/gpu-bundle.tar.xz}")
  # shellcheck disable=SC2086
  need_packages $BUILD_PACKAGES xz-utils
  need_libtorch cuda
  CONFIGURE_OPTIONS=(-DGPUTRAIN_CUDA=ON)
  build_targets gputrain gputrain-worker gputrain_cuda
  stage=$(mktemp -d)  # not local: the trap outlives this function
  trap 'rm -rf "$stage"' EXIT
  mkdir -p "$stage/gputrain/lib"
  cp "$BUILD/gputrain" "$BUILD/gputrain-worker" "$BUILD/libgputrain_cuda.so" "$HERE/gpu_check.sh" "$stage/gputrain/"
  (cd "$ROOT" && cp --parents tests/gpu/gpu_engine.py tests/parity/reference_{gpt,models,unet}.py tests/support/order.py "$stage/gputrain/")
  strip "$stage/gputrain/gputrain" "$stage/gputrain/gputrain-worker" "$stage/gputrain/libgputrain_cuda.so"
  # Debian's shared objects that the other machine may lack; the C and C++ run time and everything of torch are its own.
  ldd "$BUILD/gputrain" "$BUILD/gputrain-worker" | awk '/=> \// {print $3}' | sort -u |
    grep -E '/lib(spdlog|fmt|yaml-cpp|xxhash)\.so' | xargs -r cp -Lt "$stage/gputrain/lib"
  tar -C "$stage" -cJf "$out" gputrain
  local bytes; bytes=$(stat -c %s "$out")
  [ "$bytes" -le $((60 << 20)) ] || die "the bundle is $((bytes >> 20)) MiB, over 60"
  say "$out ($((bytes >> 10)) KiB)"
}

# report NAME OK DETAIL: one JSON line; the script's exit status is 1 when any check failed.
failed=0
report() {
  python3 -c 'import json, sys; print(json.dumps({"check": sys.argv[1], "ok": sys.argv[2] == "yes", "seconds": float(sys.argv[3]), "detail": sys.argv[4][-1500:]}), flush=True)' \
    "$1" "$2" "$SECONDS" "$3"
  [ "$2" = yes ] || failed=1
}

# train NAME "SETTINGS": launches the check's spec with --set SETTINGS in a run directory of its own.
train() {
  local name=$1; shift
  local sets=() setting
  for setting in "$@"; do sets+=(--set "$setting"); done
  timeout 120 "$HERE/gputrain" launch "$WORK/spec.yaml" --set "output=$WORK/$name" "${sets[@]}" >"$WORK/$name.out" 2>&1
}

# last_loss RUN STEP
loss_at() {
  python3 - "$WORK/$1/events.jsonl" "$2" <<'PY'
import json, sys
print(next(repr(r["loss"]) for r in reversed([json.loads(l) for l in open(sys.argv[1])]) if r["kind"] == "step" and r["step"] == int(sys.argv[2])))
PY
}

check_precision() {
  local precision=$1
  if train "$precision" "train.precision=$precision" && python3 - "$WORK/$precision/events.jsonl" "$WORK/fp32/events.jsonl" "$precision" <<'PY'
import json, math, sys
steps = lambda path: [r for r in map(json.loads, open(path)) if r["kind"] == "step"]
mine, reference = steps(sys.argv[1]), steps(sys.argv[2])
assert len(mine) == len(reference) == 60 and all(math.isfinite(r["loss"]) for r in mine)
assert mine[-1]["loss"] < 0.8 * mine[0]["loss"], (mine[0]["loss"], mine[-1]["loss"])
assert abs(mine[0]["loss"] - reference[0]["loss"]) < 2e-2 * reference[0]["loss"], (mine[0]["loss"], reference[0]["loss"])
assert sys.argv[3] != "fp16" or mine[0]["scale"] > 0
PY
  then report "$precision" yes "loss of step 60: $(loss_at "$precision" 60)"; else report "$precision" no "$(cat "$WORK/$precision.out")"; fi
}

# Every sample once, whatever the micro-batch, and what was learned shows.
check_evaluation() {
  if python3 - "$WORK/fp32/events.jsonl" >"$WORK/evaluation.out" 2>&1 <<'PY'
import json, sys
evals = [r for r in map(json.loads, open(sys.argv[1])) if r["kind"] == "eval"]
assert [r["step"] for r in evals] == [30, 60] and all(r["samples"] == 300 for r in evals), evals
assert evals[1]["loss"] < 2.0 and evals[1]["accuracy"] > 0.3, evals
print("accuracy", evals[1]["accuracy"], "of 300 samples in", evals[1]["seconds"], "s")
PY
  then report evaluation yes "$(cat "$WORK/evaluation.out")"; else report evaluation no "$(cat "$WORK/evaluation.out")"; fi
}

check_resume() {
  train whole train.deterministic=true && train cut train.deterministic=true train.max_steps=31 && train cut train.deterministic=true &&
    [ "$(loss_at whole 60)" = "$(loss_at cut 60)" ] &&
    report resume yes "loss of step 60 after a resume at 31 is the same to the bit: $(loss_at cut 60)" ||
    report resume no "$(cat "$WORK/cut.out")"
}

# The checks of tests/gpu/gpu_engine.py, which prints their lines itself. A group of one would put NCCL between gputrain and its peers, who have none.
check_speed() {
  local options=()
  [ "$cpu" = no ] || options=(--cpu)
  mkdir "$WORK/$1"
  env -u GPUTRAIN_INTERNAL_GROUP_OF_ONE python3 -W ignore "$HERE/tests/gpu/gpu_engine.py" "$1" --gputrain "$HERE/gputrain" --work "$WORK/$1" "${options[@]}" || failed=1
  rm -rf "${WORK:?}/$1"
}

check_training() {
  python3 - "$WORK" <<'PY'
import random, struct, sys
rng = random.Random(0)
for name, n in (("train", 2048), ("val", 300)):
    labels = bytes(rng.randrange(10) for _ in range(n))
    pixels = bytearray()
    for label in labels:
        image = bytearray(rng.randbytes(784))
        for row in range(4):
            begin = (label * 2 + row) * 28 + label * 2
            image[begin:begin + 4] = b"\xff" * 4
        pixels += image
    open(f"{sys.argv[1]}/{name}-images", "wb").write(struct.pack(">IIII", 0x803, n, 28, 28) + pixels)
    open(f"{sys.argv[1]}/{name}-labels", "wb").write(struct.pack(">II", 0x801, n) + labels)
PY
  local model='{name: small_cnn}'
  [ $cpu = no ] || model='{name: mlp, args: {in_features: 784, hidden: [32]}}'  # fp16 on a CPU takes 70 times as long as fp32
  cat >"$WORK/spec.yaml" <<YAML
name: gpu-check
output: $WORK/out
launch: {nproc_per_node: 1, backend: $backend}
model: $model
data:
  train: {format: idx, images: $WORK/train-images, labels: $WORK/train-labels}
  val: {format: idx, images: $WORK/val-images, labels: $WORK/val-labels}
  transforms:
    train: [random_horizontal_flip, to_tensor, {normalize: {mean: [0.5], std: [0.5]}}]
    val: [to_tensor, {normalize: {mean: [0.5], std: [0.5]}}]
  pin_memory: $([ $cpu = yes ] && echo false || echo true)
train: {max_steps: 60, global_batch: 128, micro_batch: 64}
optimizer: {name: adamw, lr: 1e-3}
evaluate: {every: 30 steps}
checkpoint: {every: 30 steps, keep_best: accuracy}
log: {every: 1 step}
YAML
  if train fp32; then report "$backend, one rank, fp32, pinned loader" yes "$(tail -n 1 "$WORK/fp32.out")"; else report "$backend, one rank, fp32" no "$(cat "$WORK/fp32.out")"; fi
  check_evaluation
  check_precision bf16
  check_precision fp16
  check_resume
  local code=0
  "$HERE/gputrain" launch "$WORK/spec.yaml" --dry-run --set launch.nproc_per_node=64 --set launch.backend=nccl --set train.micro_batch=auto >"$WORK/many.out" 2>&1 || code=$?
  report "more ranks than GPUs is exit 69" "$([ $code -eq 69 ] && echo yes || echo no)" "exit $code: $(head -n 3 "$WORK/many.out")"
}

cpu=no backend=nccl
run() {
  SECONDS=0
  [ "${1:-}" = --cpu ] && { shift; cpu=yes; backend=gloo; export CUDA_VISIBLE_DEVICES= OMP_NUM_THREADS=1; }
  local torch part
  torch=$(python3 -c 'import torch; assert torch.__version__.startswith("2.11."), torch.__version__; print(torch.__path__[0])') ||
    { report torch no "Python with torch 2.11 is needed"; exit 1; }
  LD_LIBRARY_PATH=$HERE/lib:$torch/lib:$(find "$torch/../nvidia" -name lib -type d 2>/dev/null | paste -sd:):${LD_LIBRARY_PATH:-}
  export LD_LIBRARY_PATH GPUTRAIN_INTERNAL_GROUP_OF_ONE=1
  WORK=$(mktemp -d)
  trap 'rm -rf "$WORK"' EXIT
  [ $# -gt 0 ] || set -- training resnet50 gpt2
  for part in "$@"; do
    case $part in
      training) check_training ;;
      resnet50 | gpt2) check_speed "$part" ;;
      *) usage ;;
    esac
  done
  exit $failed
}

usage() {
  echo "usage: gpu_check.sh bundle [OUT.tar.xz] | run [--cpu] [training] [resnet50] [gpt2]" >&2
  exit 2
}

case "${1:-}" in
  bundle) shift; bundle "$@" ;;
  run) shift; run "$@" ;;
  *) usage ;;
esac
